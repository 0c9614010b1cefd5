// Lineage of a touched file: the commits that last changed its lines.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Commit, ApiError, type Lineage, fetchLineage } from "../api/client";
import type { FileTouch } from "../api/types";
import { Time } from "./time";

type LookupState = "loading" | Lineage | ApiError;

export function LineageButton({ mindmap, touch }: { mindmap: string; touch: FileTouch }) {
  const [lookup, setLookup] = useState<LookupState | null>(null);
  const request = useRef<AbortController | null>(null);
  useEffect(() => () => request.current?.abort(), []);
  const loadLineage = async (): Promise<void> => {
    request.current = new AbortController();
    setLookup("loading");
    try {
      setLookup(await fetchLineage(mindmap, touch.path, touch.lines ?? "", request.current.signal));
    } catch (error) {
      if (error instanceof ApiError) setLookup(error);
      else if (!(error instanceof DOMException)) throw error;
    }
  };
  return (
    <div class="lineage">
      <button
        type="button"
        class="link-button"
        aria-expanded={lookup !== null}
        onClick={() => (lookup === null ? void loadLineage() : (request.current?.abort(), setLookup(null)))}
      >
        {lookup === null ? "Why?" : "Hide why"}
        <span class="visually-hidden"> does {touch.path} look the way it does</span>
      </button>
      {lookup !== null && <div aria-live="polite">{renderLookup(lookup)}</div>}
    </div>
  );
}

function renderLookup(lookup: LookupState) {
  if (lookup === "loading") return <p class="muted">Loading the history…</p>;
  if (lookup instanceof ApiError) {
    return (
      <p class="muted">
        {lookup.message} {lookup.hint}
      </p>
    );
  }
  const limitation = lookup.meta.explain?.limitation ?? (lookup.hits.length ? null : lookup.meta.hint);
  return (
    <>
      {!lookup.hits.length && !limitation && <p class="muted">No commit has changed these lines yet.</p>}
      <ol class="commits">
        {lookup.hits.map((hit) => (
          <li key={hit.commit_sha}>
            <CommitLine hit={hit} />
          </li>
        ))}
      </ol>
      {limitation && <p class="muted">{limitation}</p>}
    </>
  );
}

function CommitLine({ hit }: { hit: Commit }) {
  const [subject = "", ...body] = hit.commit_message.split("\n");
  const rest = body.join("\n").trim();
  const lines = hit.blame_lines.length;
  return (
    <>
      <p class="commit-subject">{subject}</p>
      {rest && <p class="commit-body">{rest.length > 280 ? `${rest.slice(0, 280)}…` : rest}</p>}
      <p class="muted">
        <code>{hit.commit_sha.slice(0, 10)}</code> {hit.commit_author}, <Time at={hit.commit_date} />, {lines}{" "}
        {lines === 1 ? "line" : "lines"}
      </p>
    </>
  );
}
