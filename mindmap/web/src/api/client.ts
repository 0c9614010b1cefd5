// The viewer's routes, and what its errors say.

import { parsed } from "./isolating";
import type { Mindmap, Summary } from "./types";

/** What a request came to nothing for; `status` is 0 where no server answered. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string = "",
  ) {
    super(message);
  }
}

async function asked<T>(path: string, options: RequestInit = {}): Promise<T> {
  const response = await answered(path, options);
  const text = await response.text();
  if (!response.ok) throw failure(response.status, text);
  try {
    return parsed(text) as T;
  } catch {
    throw new Failure("The viewer answered with something that is no JSON.", response.status);
  }
}

export const unanswered = (): Failure =>
  new Failure("The viewer does not answer.", 0, "Start it again with `mindmap viewer`: this page goes on by itself.");

async function answered(path: string, options: RequestInit): Promise<Response> {
  try {
    // Asks the server each time, and is spared the document where its ETag is the same.
    return await fetch(path, { cache: "no-cache", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unanswered();
  }
}

function failure(status: number, text: string): Failure {
  const told = errorIn(text);
  return new Failure(told.message || `The viewer answered with status ${status}.`, status, told.hint);
}

function errorIn(text: string): { message: string; hint: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown; hint?: unknown } };
    return { message: String(error?.message ?? ""), hint: String(error?.hint ?? "") };
  } catch {
    return { message: "", hint: "" };
  }
}

const place = (id: string): string => `/api/mindmaps/${encodeURIComponent(id)}`;

export const sessions = (): Promise<Summary[]> => asked("/api/mindmaps");
export const mindmap = (id: string): Promise<Mindmap> => asked(place(id));

export const syncGit = (mindmapId: string): Promise<{ synced: number; mindmap: Mindmap }> =>
  asked("/api/sync-git", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ mindmapId }),
  });

/** A file of the data directory that cannot be shown, and why. */
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

export const status = (): Promise<Status> => asked("/api/status");

export async function exported(id: string, format: "markdown" | "mermaid" | "json"): Promise<string> {
  const response = await answered(`${place(id)}/export?format=${format}`, {});
  const text = await response.text();
  if (!response.ok) throw failure(response.status, text);
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

export const why = (mindmap: string, path: string, lines: string, signal: AbortSignal): Promise<Lineage> =>
  asked(`/api/why?${new URLSearchParams({ mindmap, path, lines })}`, { signal });
