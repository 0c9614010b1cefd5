// File touched by a node: action, lines, changes, symbols and lineage.

import type { CodeChange, FileTouch, Mindmap } from "../api/types";
import { ACTIONS, getGlyphAndLabel, getLabel } from "../model/vocabulary";
import { app } from "../state/app";
import { useSelector } from "../state/store";
import { ChangeGlyph } from "./icon";
import { Time } from "./time";
import { LineageButton } from "./lineage";

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
          title={`Highlight the nodes with ${touch.path}`}
          onClick={() => app.set({ file: isSelected ? null : touch.path, logIndex: null })}
        >
          <FilePath path={touch.path} />
        </button>
        {touch.lines && <span class="lines">:{touch.lines}</span>}
        {touch.timestamp && <Time at={touch.timestamp} />}
      </p>
      {touch.previousPath && (
        <p class="muted">
          was <code>{touch.previousPath}</code>
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
        {change.previousSymbol && <s>{change.previousSymbol}</s>}
        {change.previousSymbol && " "}
        {change.symbol}
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
          <code>{symbol}</code>
        </li>
      ))}
    </ul>
  );
}

export function FilePath({ path }: { path: string }) {
  const cut = path.lastIndexOf("/") + 1;
  return (
    <span class="file-path">
      <span class="folder">{path.slice(0, cut)}</span>
      <wbr />
      <span class="name">{path.slice(cut)}</span>
    </span>
  );
}
