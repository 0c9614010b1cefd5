// HTTP client of the viewer's routes.

import { parseJson } from "./bidi";
import type { Mindmap, Summary } from "./types";

/** Error of a request. `status` is the HTTP status, or 0 if no server answered. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string = "",
  ) {
    super(message);
  }
}

async function requestJson<T>(path: string, options: RequestInit = {}): Promise<T> {
  const response = await fetchResponse(path, options);
  const text = await response.text();
  if (!response.ok) throw errorFromResponse(response.status, text);
  try {
    return parseJson(text) as T;
  } catch {
    throw new ApiError("The viewer's answer is not JSON.", response.status);
  }
}

export const offlineError = (): ApiError =>
  new ApiError("The viewer does not answer.", 0, "Run `mindmap viewer` again. This page reconnects by itself.");

async function fetchResponse(path: string, options: RequestInit): Promise<Response> {
  try {
    // "no-cache" revalidates every time; an unchanged ETag spares the download.
    return await fetch(path, { cache: "no-cache", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw offlineError();
  }
}

function errorFromResponse(status: number, text: string): ApiError {
  const detail = parseErrorBody(text);
  return new ApiError(detail.message || `The viewer answered with status ${status}.`, status, detail.hint);
}

function parseErrorBody(text: string): { message: string; hint: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown; hint?: unknown } };
    return { message: String(error?.message ?? ""), hint: String(error?.hint ?? "") };
  } catch {
    return { message: "", hint: "" };
  }
}

const mapUrl = (id: string): string => `/api/mindmaps/${encodeURIComponent(id)}`;

export const fetchSessions = (): Promise<Summary[]> => requestJson("/api/mindmaps");
export const fetchMindmap = (id: string): Promise<Mindmap> => requestJson(mapUrl(id));

export const syncGit = (mindmapId: string): Promise<{ synced: number; mindmap: Mindmap }> =>
  requestJson("/api/sync-git", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ mindmapId }),
  });

/** A file in the data directory that cannot be shown, with the error. */
export interface Problem {
  id: string;
  message: string;
  hint: string;
}

export interface Status {
  version: string;
  dataDir: string;
  watching: string;
  problems: Problem[];
}

export const fetchStatus = (): Promise<Status> => requestJson("/api/status");

export async function fetchExport(id: string, format: "markdown" | "mermaid" | "json"): Promise<string> {
  const response = await fetchResponse(`${mapUrl(id)}/export?format=${format}`, {});
  const text = await response.text();
  if (!response.ok) throw errorFromResponse(response.status, text);
  return text;
}

/** A commit that shaped lines of a file. */
export interface Commit {
  commit_sha: string;
  commit_message: string;
  commit_author: string;
  commit_date: string;
  blame_lines: number[];
}

export interface Lineage {
  hits: Commit[];
  meta: { hint?: string | null; explain?: { limitation?: string | null } };
}

export const fetchLineage = (mindmap: string, path: string, lines: string, signal: AbortSignal): Promise<Lineage> =>
  requestJson(`/api/why?${new URLSearchParams({ mindmap, path, lines })}`, { signal });
