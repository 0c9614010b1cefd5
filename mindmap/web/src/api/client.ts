// HTTP client of the viewer's routes. Bidirectional control characters in its answers are made harmless.

import type { Mindmap, SessionSummary } from "./types";

/**
 * Error of a request. `status` is the HTTP status, or 0 if no server answered; `hint` is the next action, or empty; `code`
 * names the kind of the viewer's error, or is empty.
 */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string = "",
    readonly code: string = "",
  ) {
    super(message);
  }
}

/** Code of the error for a map that does not exist. */
export const NO_SUCH_MAP = "no_such_mindmap";

const HTTP_OK = 200;
const RESTART_HINT = "Reload the page. If the error returns, restart `mindmap viewer`.";

/** Rethrows an error unless it is an ApiError, because all other errors are faults of the page. */
export function assertApiError(error: unknown): asserts error is ApiError {
  if (!(error instanceof ApiError)) throw error;
}

async function requestJson<T>(path: string, options: RequestInit = {}, parse: (text: string) => unknown = parseJsonAndIsolateTexts): Promise<T> {
  const text = await requestText(path, options);
  try {
    return parse(text) as T;
  } catch (error) {
    if (error instanceof SyntaxError) throw new ApiError("The viewer's answer is not JSON.", HTTP_OK, RESTART_HINT);
    throw error;
  }
}

export const createOfflineError = (): ApiError => new ApiError("The viewer does not answer.", 0, "Start it again. This page reconnects by itself.");

// Default port of `mindmap viewer`, which the built command omits.
const DEFAULT_PORT = "4870";
// Port of an HTTP address that names no port.
const HTTP_PORT = "80";

/** Returns the command that starts a viewer again at the same address, for the same maps. */
export function buildViewerCommand(address: { port: string }, { dataDir, defaultDataDir }: { dataDir: string; defaultDataDir: string }): string {
  const port = address.port || HTTP_PORT;
  const directory = /^[\w./~-]*$/u.test(dataDir) ? dataDir : `'${dataDir.replace(/'/gu, String.raw`'\''`)}'`;
  const environment = dataDir === defaultDataDir ? "" : `MINDMAP_DATA_DIR=${directory} `;
  return `${environment}mindmap viewer${port === DEFAULT_PORT ? "" : ` --port ${port}`}`;
}

/** Returns the text of a response. Throws an ApiError if no server answers or if the response is an error. */
async function requestText(path: string, options: RequestInit = {}): Promise<string> {
  const { response, text } = await fetchText(path, options);
  if (!response.ok) throw createResponseError(response.status, text);
  return text;
}

async function fetchText(path: string, options: RequestInit): Promise<{ response: Response; text: string }> {
  try {
    // With "no-cache" the browser revalidates every time, and downloads nothing while the ETag is unchanged.
    const response = await fetch(path, { cache: "no-cache", ...options });
    return { response, text: await response.text() };
  } catch (error) {
    if (error instanceof TypeError) throw createOfflineError(); // no answer, or an incomplete one
    throw error;
  }
}

function createResponseError(status: number, text: string): ApiError {
  const { message, hint, code } = parseErrorBody(text);
  if (message) return new ApiError(message, status, hint, code);
  return new ApiError(`The viewer answered with the unexpected status ${status}.`, status, RESTART_HINT);
}

/** Returns the texts of an error response; all are empty if it is not from the viewer. */
function parseErrorBody(text: string): { message: string; hint: string; code: string } {
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown; hint?: unknown; code?: unknown } } | null;
    const { message = "", hint = "", code = "" } = body?.error ?? {};
    return { message: String(message), hint: String(hint), code: String(code) };
  } catch (error) {
    if (error instanceof SyntaxError) return { message: "", hint: "", code: "" };
    throw error;
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

/** File in the data directory that the viewer cannot read. `id` is the id of the map in the file. */
export interface Problem {
  id: string;
  message: string;
  hint: string;
}

export interface Status {
  dataDir: string;
  /** The data directory that is used if none is set. */
  defaultDataDir: string;
  problems: Problem[];
}

export const fetchStatus = (): Promise<Status> => requestJson("/api/status");

export const fetchExport = (id: string, format: "markdown" | "mermaid" | "json"): Promise<string> => requestText(`${buildMapUrl(id)}/export?format=${format}`);

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

// These two answers are parsed without isolation, because the page shows control characters in code as code points.

export const fetchCommit = (mindmap: string, commit: string, path: string, signal: AbortSignal): Promise<CommitDetails> =>
  requestJson(`/api/commit?${new URLSearchParams({ mindmap, commit, path })}`, { signal }, JSON.parse);

export const fetchLineage = (mindmap: string, path: string, lines: string, signal: AbortSignal): Promise<Lineage> =>
  requestJson(`/api/why?${new URLSearchParams({ mindmap, path, lines })}`, { signal }, JSON.parse);

// ---- bidirectional control characters

// In a label these characters must not change the direction of the text around it. In code they are shown as code points,
// because they can make the code look like other code.

const BIDI_CONTROLS = /[\u202A-\u202E\u2066-\u2069]/u;
const [ISOLATE, END_ISOLATE, END_EMBEDDING] = ["\u2068", "\u2069", "\u202C"] as const;
// Fields with free text. Ids and paths stay unchanged, because they are sent back to the server.
const TEXT_FIELDS = new Set(["label", "title", "message", "summary", "detail", "notes", "activeTask", "reason", "client", "text", "answer"]);

/** Parses JSON and isolates its free texts. The reviver, which visits every value, is used only if there are control characters. */
export function parseJsonAndIsolateTexts(text: string): unknown {
  if (!BIDI_CONTROLS.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value: unknown) => (typeof value === "string" && TEXT_FIELDS.has(key) ? isolateBidi(value) : value));
}

/**
 * Wraps a text in a Unicode isolate if it contains bidirectional control characters. Inside the isolate, every embedding and
 * isolate that the text opens is closed, and an end without a start is left out.
 */
export function isolateBidi(text: string): string {
  if (!BIDI_CONTROLS.test(text)) return text;
  const missingEnds: string[] = [];
  let content = "";
  for (const character of text) {
    if (character === END_ISOLATE || character === END_EMBEDDING) {
      if (missingEnds.at(-1) !== character) continue;
      missingEnds.pop();
    } else if (BIDI_CONTROLS.test(character)) {
      missingEnds.push(character < "\u2066" ? END_EMBEDDING : END_ISOLATE);
    }
    content += character;
  }
  return `${ISOLATE}${content}${missingEnds.reverse().join("")}${END_ISOLATE}`;
}

// Bidirectional controls and marks, and other characters that are not displayed. Joiners (U+200C, U+200D) and the
// variation selectors of emoji (U+FE00 to U+FE0F) are not among them.
const HIDDEN_CHARACTERS =
  /[\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/gu;

/** Replaces each character that is not displayed with its code point, such as `<U+202E>`. */
export const escapeHiddenCharacters = (text: string): string =>
  text.replace(HIDDEN_CHARACTERS, (character) => `<U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}>`);
