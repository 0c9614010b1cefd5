// Lineage of a touched file: the commits that last changed its lines, each with its message and diff.

import { useEffect, useRef, useState } from "preact/hooks";
import { escapeHiddenCharacters } from "../api/bidi";
import { type Commit, ApiError, type CommitDetails, type Lineage, fetchCommit, fetchLineage } from "../api/client";
import type { FileTouch } from "../api/types";
import { Time } from "./time";

type Lookup<Result> = "loading" | Result | ApiError;

/** Returns the result of a request, null before it, and a function that starts the request or drops its result. */
function useLookup<Result>(load: (signal: AbortSignal) => Promise<Result>): [Lookup<Result> | null, () => void] {
  const [lookup, setLookup] = useState<Lookup<Result> | null>(null);
  const request = useRef<AbortController | null>(null);
  useEffect(() => () => request.current?.abort(), []);
  const start = async (): Promise<void> => {
    request.current = new AbortController();
    setLookup("loading");
    try {
      setLookup(await load(request.current.signal));
    } catch (error) {
      if (error instanceof ApiError) setLookup(error);
      else if (!(error instanceof DOMException && error.name === "AbortError")) throw error;
    }
  };
  const toggle = (): void => {
    request.current?.abort();
    if (lookup === null) void start();
    else setLookup(null);
  };
  return [lookup, toggle];
}

export function LineageButton({ mindmap, touch }: { mindmap: string; touch: FileTouch }) {
  const [lookup, toggle] = useLookup((signal) => fetchLineage(mindmap, touch.path, touch.lines ?? "", signal));
  return (
    <div class="lineage">
      <button type="button" class="link-button" aria-expanded={lookup !== null} onClick={toggle}>
        {lookup === null ? "Why?" : "Hide"}
        <span class="visually-hidden">
          {" "}
          {lookup === null ? "Explain the lines of" : "the explanation of"} {touch.path}
        </span>
      </button>
      <LookupView lookup={lookup} view={(lineage) => <LineageView mindmap={mindmap} lineage={lineage} />} />
    </div>
  );
}

function LookupView<Result extends object>({ lookup, view }: { lookup: Lookup<Result> | null; view: (result: Result) => preact.ComponentChildren }) {
  if (lookup === null) return null;
  return (
    <div aria-live="polite">
      {lookup === "loading" ? (
        <p class="muted">Loading…</p>
      ) : lookup instanceof ApiError ? (
        <p class="muted">
          {lookup.message} {lookup.hint}
        </p>
      ) : (
        view(lookup)
      )}
    </div>
  );
}

function LineageView({ mindmap, lineage: { hits, meta } }: { mindmap: string; lineage: Lineage }) {
  const note = meta.explain?.limitation ?? (hits.length ? null : meta.hint);
  return (
    <>
      {!hits.length && !note && <p class="muted">No commit has changed these lines yet.</p>}
      <ol class="commits">
        {hits.map((hit) => (
          <li key={hit.commit_sha}>
            <CommitView mindmap={mindmap} hit={hit} />
          </li>
        ))}
      </ol>
      {note && <p class="muted">{note}</p>}
    </>
  );
}

/** Commit that opens to its message and its diff of the file. */
function CommitView({ mindmap, hit }: { mindmap: string; hit: Commit }) {
  const [lookup, toggle] = useLookup((signal) => fetchCommit(mindmap, hit.commit_sha, hit.file_path, signal));
  const lines = hit.blame_lines.length;
  return (
    <>
      <button type="button" class="commit-subject" aria-expanded={lookup !== null} onClick={toggle}>
        {escapeHiddenCharacters(hit.commit_message.split("\n")[0]!)}
      </button>
      <p class="muted">
        <code>{hit.commit_sha.slice(0, 10)}</code> {escapeHiddenCharacters(hit.commit_author)}, <Time at={hit.commit_date} />, {lines}{" "}
        {lines === 1 ? "line" : "lines"}
      </p>
      <LookupView lookup={lookup} view={(details) => <CommitBody details={details} />} />
    </>
  );
}

const LINE_CLASSES: Record<string, string> = { "+": "added", "-": "removed", "@": "hunk" };

function CommitBody({ details: { commit, diff, limitation } }: { details: CommitDetails }) {
  const body = commit.commit_message.split("\n").slice(1).join("\n").trim();
  return (
    <>
      {body && <p class="commit-body">{escapeHiddenCharacters(body)}</p>}
      {diff && (
        <pre class="diff" tabIndex={0} aria-label={`Diff of ${diff.path}`}>
          {escapeHiddenCharacters(diff.text).split("\n").map((line, index) => (
            <span key={index} class={LINE_CLASSES[line[0] ?? ""]}>
              {line}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
      {!!diff?.omitted_lines && <p class="muted">{diff.omitted_lines.toLocaleString()} more lines</p>}
      {limitation && <p class="muted">{limitation}</p>}
    </>
  );
}
