// HTTP client of the viewer's routes.

import { parseJsonAndIsolateTexts } from "./bidi";
import type { Mindmap, SessionSummary } from "./types";

/** Error of a request. `status` is the HTTP status, or 0 if no server answered; `hint` is the next action, or empty. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string = "",
  ) {
    super(message);
  }
}

const RESTART_HINT = "Reload the page. If the error returns, restart `mindmap viewer`.";

async function requestJson<T>(path: string, options: RequestInit = {}): Promise<T> {
  const response = await fetchResponse(path, options);
  const text = await response.text();
  if (!response.ok) throw createResponseError(response.status, text);
  try {
    return parseJsonAndIsolateTexts(text) as T;
  } catch {
    throw new ApiError("The viewer's answer is not JSON.", response.status, RESTART_HINT);
  }
}

export const createOfflineError = (): ApiError => new ApiError("The viewer does not answer.", 0, "Start it again. This page reconnects by itself.");

// Defaults of `mindmap viewer`, which its command does not repeat.
const DEFAULT_PORT = "4870";
const DEFAULT_DIRECTORY = "/.mindmap/data";

/** Returns the command that starts a viewer again at the same address, for the same maps. */
export function buildViewerCommand(port: string, dataDir: string): string {
  const directory = /^[\w./~-]*$/u.test(dataDir) ? dataDir : `'${dataDir.replace(/'/gu, String.raw`'\''`)}'`;
  return `${!dataDir || dataDir.endsWith(DEFAULT_DIRECTORY) ? "" : `MINDMAP_DATA_DIR=${directory} `}mindmap viewer${port === DEFAULT_PORT ? "" : ` --port ${port}`}`;
}

async function fetchResponse(path: string, options: RequestInit): Promise<Response> {
  try {
    // "no-cache" revalidates every time; an unchanged ETag spares the download.
    return await fetch(path, { cache: "no-cache", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw createOfflineError();
  }
}

function createResponseError(status: number, text: string): ApiError {
  const { message, hint } = parseErrorBody(text);
  if (message) return new ApiError(message, status, hint);
  return new ApiError(`The viewer answered with the unexpected status ${status}.`, status, RESTART_HINT);
}

/** Returns the message and hint of an error response; both are empty if it is not from the viewer. */
function parseErrorBody(text: string): { message: string; hint: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown; hint?: unknown } };
    return { message: String(error?.message ?? ""), hint: String(error?.hint ?? "") };
  } catch {
    return { message: "", hint: "" };
  }
}

const buildMapUrl = (id: string): string => `/api/mindmaps/${encodeURIComponent(id)}`;

export const fetchSessionSummaries = (): Promise<SessionSummary[]> => requestJson("/api/mindmaps");
export const fetchMindmap = (id: string): Promise<Mindmap> => requestJson(buildMapUrl(id));

const postJson = <T>(path: string, body: object): Promise<T> =>
  requestJson(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/** Attaches the files that differ from HEAD to the map. `synced` is their number. */
export const syncGit = (mindmapId: string): Promise<{ synced: number; mindmap: Mindmap }> => postJson("/api/sync-git", { mindmapId });

export const postAnswer = (mindmapId: string, questionId: string, answer: string): Promise<{ mindmap: Mindmap }> =>
  postJson("/api/answer", { mindmapId, questionId, answer });

export const postComment = (mindmapId: string, nodeId: string, text: string): Promise<{ mindmap: Mindmap }> =>
  postJson("/api/comment", { mindmapId, nodeId, text });

/** File in the data directory that the viewer cannot read. `id` is the id of its map. */
export interface Problem {
  id: string;
  message: string;
  hint: string;
}

export interface Status {
  dataDir: string;
  problems: Problem[];
}

export const fetchStatus = (): Promise<Status> => requestJson("/api/status");

export async function fetchExport(id: string, format: "markdown" | "mermaid" | "json"): Promise<string> {
  const response = await fetchResponse(`${buildMapUrl(id)}/export?format=${format}`, {});
  const text = await response.text();
  if (!response.ok) throw createResponseError(response.status, text);
  return text;
}

/** Commit that last changed some lines of a file. `blame_lines` are the numbers of these lines in the current file. */
export interface Commit {
  commit_sha: string;
  commit_message: string;
  commit_author: string;
  commit_date: string;
  blame_lines: number[];
  /** Path of the file in the commit. */
  file_path: string;
}

/** Commit with its diff of a file. `limitation` says what is not shown. */
export interface CommitDetails {
  commit: { commit_message: string };
  diff?: { path: string; text: string; omitted_lines: number };
  limitation?: string;
}

/** Lineage of a file, as `lineage explain` computes it. `limitation` and `hint` say why the list may be incomplete. */
export interface Lineage {
  hits: Commit[];
  meta: { hint?: string | null; explain?: { limitation?: string | null } };
}

export const fetchCommit = (mindmap: string, commit: string, path: string, signal: AbortSignal): Promise<CommitDetails> =>
  requestJson(`/api/commit?${new URLSearchParams({ mindmap, commit, path })}`, { signal });

export const fetchLineage = (mindmap: string, path: string, lines: string, signal: AbortSignal): Promise<Lineage> =>
  requestJson(`/api/why?${new URLSearchParams({ mindmap, path, lines })}`, { signal });
