// Every file that the map touches, and which nodes did; choosing one lights them up.

import { useState } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { type Touched, newest } from "../model/related";
import { ACTIONS, glyphOf, said } from "../model/vocabulary";
import { app, crossingsOf } from "../state/app";
import { useChosen } from "../state/store";
import { NodeButton } from "./node";
import { Time } from "./time";
import { FilePath, Touch } from "./touch";

const SHOWN = 200;

export function Files() {
  const map = useChosen(app, (state) => state.map)!;
  const chosen = useChosen(app, (state) => state.file);
  const [part, setPart] = useState("");
  const { files } = crossingsOf(map);
  const fitting = files.filter(({ path }) => path.toLowerCase().includes(part.toLowerCase()));
  if (!files.length) {
    return (
      <div class="aside">
        <p>No file is attached to this map yet.</p>
        <p class="muted">Agents log what they touch. With a workspace, Sync attaches whatever differs from HEAD.</p>
      </div>
    );
  }
  return (
    <div class="files">
      <input
        type="search"
        class="filter"
        placeholder={`Filter ${files.length.toLocaleString()} files`}
        aria-label="Filter files by path"
        value={part}
        onInput={(event) => setPart(event.currentTarget.value)}
      />
      <ul>
        {fitting.slice(0, SHOWN).map((file) => (
          <li key={file.path} class={file.path === chosen ? "chosen" : ""}>
            <FileLine file={file} chosen={file.path === chosen} />
            {file.path === chosen && <Detail map={map} file={file} />}
          </li>
        ))}
      </ul>
      {!fitting.length && <p class="muted">No path has “{part}”.</p>}
      {fitting.length > SHOWN && <p class="more">and {(fitting.length - SHOWN).toLocaleString()} more: filter to see them</p>}
    </div>
  );
}

function FileLine({ file, chosen }: { file: Touched; chosen: boolean }) {
  const actions = [...new Set(file.touches.map(({ touch }) => said(ACTIONS, touch.action)))];
  const kinds = [...new Set(file.touches.flatMap(({ touch }) => (touch.changes ?? []).map((change) => change.kind)))];
  return (
    <button type="button" class="file-line" aria-expanded={chosen} onClick={() => app.set({ file: chosen ? null : file.path, step: null })}>
      <FilePath path={file.path} />
      <span class="file-facts">
        <span>{actions.join(", ")}</span>
        {kinds.length > 0 && <span class="glyphs">{kinds.map((kind) => glyphOf(kind)[0]).join(" ")}</span>}
        {file.touches.length > 1 && <span>{file.touches.length} nodes</span>}
        <Time at={newest(file)} />
      </span>
    </button>
  );
}

const Detail = ({ map, file }: { map: Mindmap; file: Touched }) => (
  <ul class="touches">
    {file.touches.map(({ node, touch }) => (
      <li key={node}>
        <NodeButton node={map.nodes[node]!} />
        <Touch map={map} touch={touch} />
      </li>
    ))}
  </ul>
);
