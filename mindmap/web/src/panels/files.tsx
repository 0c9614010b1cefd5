// Files of the map with the nodes that touched them, and the lineage of a file.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Commit, type CommitDetails, type Lineage, ApiError, escapeHiddenCharacters, fetchCommit, fetchLineage } from "../api/client";
import type { CodeChange, FileTouch, Mindmap } from "../api/types";
import { type FileTouches, getLastTouchTime } from "../model/relations";
import { ACTIONS, getGlyphAndLabel, getLabel } from "../model/vocabulary";
import { syncWithGit } from "../state/actions";
import { app, getRelations, useSelector } from "../state/app";
import { ChangeGlyph, NodeButton, Time, ToolIcon } from "./widgets";

// ---- list of all files

// Maximum number of files in the list. More are slow to draw, and nobody scrolls through them.
const MAX_FILES = 200;

export function Files() {
  const map = useSelector(app, (state) => state.map)!;
  const selected = useSelector(app, (state) => state.file);
  const [filter, setFilter] = useState("");
  const { files } = getRelations(map);
  const matchingFiles = files.filter(({ path }) => path.toLowerCase().includes(filter.toLowerCase()));
  if (!files.length) {
    return (
      <div class="empty-note">
        <p>No file is attached to this map yet.</p>
        <p class="muted">Agents attach the files they touch.</p>
        {map.workspacePath && <GitSync />}
      </div>
    );
  }
  return (
    <div class="files">
      {map.workspacePath && <GitSync />}
      <input
        type="search"
        class="filter"
        placeholder={`Filter ${files.length.toLocaleString()} files`}
        aria-label="Filter files by path"
        value={filter}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      <ul>
        {matchingFiles.slice(0, MAX_FILES).map((file) => (
          <li key={file.path} class={file.path === selected ? "chosen" : ""}>
            <FileLine file={file} isSelected={file.path === selected} />
            {file.path === selected && <FileDetails map={map} file={file} />}
          </li>
        ))}
      </ul>
      {!matchingFiles.length && <p class="muted">No path contains “{filter}”.</p>}
      {matchingFiles.length > MAX_FILES && <p class="more">{(matchingFiles.length - MAX_FILES).toLocaleString()} more. Type a part of their path to see them.</p>}
    </div>
  );
}

function GitSync() {
  const isSyncing = useSelector(app, (state) => state.isSyncing);
  return (
    <div class="git-sync">
      <button type="button" class="button small" aria-keyshortcuts="s" disabled={isSyncing} onClick={() => void syncWithGit()}>
        <ToolIcon name="sync" />
        Attach changed files
      </button>
      <p class="muted">Files with uncommitted changes are added to the task in progress, or updated at the nodes that have them.</p>
    </div>
  );
}

function FileLine({ file, isSelected }: { file: FileTouches; isSelected: boolean }) {
  const actions = [...new Set(file.touches.map(({ touch }) => getLabel(ACTIONS, touch.action)))];
  const kinds = [...new Set(file.touches.flatMap(({ touch }) => (touch.changes ?? []).map((change) => change.kind)))];
  return (
    <button type="button" class="file-line" aria-expanded={isSelected} onClick={() => app.set({ file: isSelected ? null : file.path, logIndex: null })}>
      <FilePath path={file.path} />
      <span class="file-facts">
        <span>{actions.join(", ")}</span>
        {kinds.length > 0 && <span class="glyphs">{kinds.map((kind) => getGlyphAndLabel(kind)[0]).join(" ")}</span>}
        {file.touches.length > 1 && <span>{file.touches.length} nodes</span>}
        <Time at={getLastTouchTime(file)} />
      </span>
    </button>
  );
}

const FileDetails = ({ map, file }: { map: Mindmap; file: FileTouches }) => (
  <ul class="touches">
    {file.touches.map(({ node, touch }) => (
      <li key={node}>
        <NodeButton node={map.nodes[node]!} />
        <FileTouchView map={map} touch={touch} />
      </li>
    ))}
  </ul>
);

// ---- file of a node

/** File touched by a node: action, lines, changes, symbols and lineage. */
export function FileTouchView({ map, touch }: { map: Mindmap; touch: FileTouch }) {
  const isSelected = useSelector(app, (state) => state.file === touch.path);
  return (
    <div class="touch">
      <p class="touch-head">
        <span class={`action a-${touch.action}`}>{getLabel(ACTIONS, touch.action)}</span>
        <button
          type="button"
          class="file"
          aria-pressed={isSelected}
          title={`Highlight the nodes with ${escapeHiddenCharacters(touch.path)}`}
          onClick={() => app.set({ file: isSelected ? null : touch.path, logIndex: null })}
        >
          <FilePath path={touch.path} />
        </button>
        {touch.lines && <span class="lines">:{touch.lines}</span>}
        {touch.timestamp && <Time at={touch.timestamp} />}
      </p>
      {touch.previousPath && (
        <p class="muted">
          was <code>{escapeHiddenCharacters(touch.previousPath)}</code>
        </p>
      )}
      {touch.summary && <p class="summary">{touch.summary}</p>}
      {!!touch.changes?.length && (
        <ul class="changes" aria-label="Changes">
          {touch.changes.map((change) => (
            <li key={`${change.kind} ${change.symbol}`}>
              <ChangeView change={change} />
            </li>
          ))}
        </ul>
      )}
      <SymbolList touch={touch} />
      {map.workspacePath && touch.action !== "create" && <LineageButton mindmap={map.id} touch={touch} />}
    </div>
  );
}

function ChangeView({ change }: { change: CodeChange }) {
  return (
    <>
      <ChangeGlyph kind={change.kind} />
      <span class="change-label">{getGlyphAndLabel(change.kind)[1]}</span>
      <code>
        {change.previousSymbol && <s>{escapeHiddenCharacters(change.previousSymbol)}</s>}
        {change.previousSymbol && " "}
        {escapeHiddenCharacters(change.symbol)}
      </code>
      {change.detail && <span class="detail">{change.detail}</span>}
    </>
  );
}

/** Symbols without a change of their own. */
function SymbolList({ touch }: { touch: FileTouch }) {
  const changed = new Set(touch.changes?.map((change) => change.symbol));
  const symbols = (touch.symbols ?? []).filter((symbol) => !changed.has(symbol));
  if (!symbols.length) return null;
  return (
    <ul class="symbols" aria-label="Symbols">
      {symbols.map((symbol) => (
        <li key={symbol}>
          <code>{escapeHiddenCharacters(symbol)}</code>
        </li>
      ))}
    </ul>
  );
}

function FilePath({ path: unsafePath }: { path: string }) {
  const path = escapeHiddenCharacters(unsafePath);
  const cut = path.lastIndexOf("/") + 1;
  return (
    <span class="file-path">
      <span class="folder">{path.slice(0, cut)}</span>
      <wbr />
      <span class="name">{path.slice(cut)}</span>
    </span>
  );
}

// ---- lineage

/** State of a started request: running, answered or failed. */
type Lookup<Result> = "loading" | Result | ApiError;

/** Returns the state of a request, null before its start, and a function that starts the request or drops its result. */
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

/** Button that shows the commits that last changed the touched lines, each with its message and diff. */
function LineageButton({ mindmap, touch }: { mindmap: string; touch: FileTouch }) {
  const [lookup, toggle] = useLookup((signal) => fetchLineage(mindmap, touch.path, touch.lines ?? "", signal));
  return (
    <div class="lineage">
      <button type="button" class="link-button" aria-expanded={lookup !== null} onClick={toggle}>
        {lookup === null ? "Why?" : "Hide"}
        <span class="visually-hidden">
          {" "}
          {lookup === null ? "Explain the lines of" : "the explanation of"} {escapeHiddenCharacters(touch.path)}
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
        <pre class="diff" tabIndex={0} aria-label={`Diff of ${escapeHiddenCharacters(diff.path)}`}>
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
