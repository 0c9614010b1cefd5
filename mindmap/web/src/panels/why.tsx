// Why a touched file looks the way it does: the commits that shaped it, from git and the repository's index.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Commit, Failure, type Lineage, why } from "../api/client";
import type { FileTouch } from "../api/types";
import { Time } from "./time";

type Answer = "asking" | Lineage | Failure;

export function Why({ mindmap, touch }: { mindmap: string; touch: FileTouch }) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const asking = useRef<AbortController | null>(null);
  useEffect(() => () => asking.current?.abort(), []);
  const ask = async (): Promise<void> => {
    asking.current = new AbortController();
    setAnswer("asking");
    try {
      setAnswer(await why(mindmap, touch.path, touch.lines ?? "", asking.current.signal));
    } catch (error) {
      if (error instanceof Failure) setAnswer(error);
      else if (!(error instanceof DOMException)) throw error;
    }
  };
  return (
    <div class="why">
      <button
        type="button"
        class="link-button"
        aria-expanded={answer !== null}
        onClick={() => (answer === null ? void ask() : (asking.current?.abort(), setAnswer(null)))}
      >
        {answer === null ? "Why?" : "Hide why"}
        <span class="visually-hidden"> does {touch.path} look the way it does</span>
      </button>
      {answer !== null && <div aria-live="polite">{told(answer)}</div>}
    </div>
  );
}

function told(answer: Answer) {
  if (answer === "asking") return <p class="muted">Asking git…</p>;
  if (answer instanceof Failure) {
    return (
      <p class="muted">
        {answer.message} {answer.hint}
      </p>
    );
  }
  const limitation = answer.meta.explain?.limitation ?? (answer.hits.length ? null : answer.meta.hint);
  return (
    <>
      {!answer.hits.length && !limitation && <p class="muted">No commit has shaped these lines yet.</p>}
      <ol class="commits">
        {answer.hits.map((hit) => (
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
