// List of the map's files with the nodes that touched them.

import { useState } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { type FileTouches, getLastTouchTime } from "../model/relations";
import { ACTIONS, getGlyphAndLabel, getLabel } from "../model/vocabulary";
import { app, getRelations } from "../state/app";
import { syncWithGit } from "../state/actions";
import { useSelector } from "../state/store";
import { ToolIcon } from "./icon";
import { NodeButton } from "./node";
import { Time } from "./time";
import { FilePath, FileTouchView } from "./touch";

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
