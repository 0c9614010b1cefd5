// Search field, filters and result list.

import { useState } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { findAncestors, getStatus } from "../model/tree";
import { getTypeName, ROOT, STATUSES, TYPES } from "../model/vocabulary";
import { clearSearch, select, selectNextMatch, toggleInSet } from "../state/actions";
import { app, getMatches, useSelector } from "../state/app";
import { Menu, NodeIcon, ToolButton, ToolIcon } from "./widgets";

const MAX_RESULTS = 50;

export function Search() {
  const map = useSelector(app, (state) => state.map)!;
  const queryText = useSelector(app, (state) => state.search);
  const matches = useSelector(app, getMatches);
  const [isListOpen, setListOpen] = useState(false);
  const ids = [...(matches ?? [])];
  return (
    <div class="search" role="search" onFocusOut={(event) => event.currentTarget.contains(event.relatedTarget as Node | null) || setListOpen(false)}>
      <ToolIcon name="search" />
      <input
        id="search"
        type="search"
        placeholder="Find nodes, files, symbols"
        aria-label="Search by words, type:, status: and file:"
        aria-keyshortcuts="/"
        autocomplete="off"
        spellcheck={false}
        value={queryText}
        onInput={(event) => {
          app.set({ search: event.currentTarget.value });
          setListOpen(true);
        }}
        onFocus={() => setListOpen(true)}
        onKeyDown={(event) => onSearchKey(event, () => setListOpen(false))}
      />
      {matches && (
        <span class="hits" role="status">
          {matches.size.toLocaleString()}
          <span class="visually-hidden"> found</span>
        </span>
      )}
      {matches && <ToolButton icon="close" label="Clear search and filters" onClick={clearSearch} />}
      <FilterMenu map={map} />
      {isListOpen && matches && queryText && <SearchResults map={map} ids={ids} close={() => setListOpen(false)} />}
    </div>
  );
}

function onSearchKey(event: KeyboardEvent, close: () => void): void {
  if (event.key === "Enter") {
    selectNextMatch(event.shiftKey ? -1 : 1);
    close(); // the list covers the toolbar
  } else if (event.key === "Escape") {
    if (app.get().search) app.set({ search: "" });
    else (event.currentTarget as HTMLElement).blur();
    close();
  } else if (event.key === "ArrowDown") {
    const first = (event.currentTarget as HTMLElement).parentElement!.querySelector<HTMLElement>(".search-results button");
    first?.focus();
  } else return;
  event.preventDefault();
}

function SearchResults({ map, ids, close }: { map: Mindmap; ids: string[]; close: () => void }) {
  const selectResult = (id: string): void => {
    select(id);
    close();
  };
  if (!ids.length) return <div class="search-results none">No matches.</div>;
  return (
    <ul class="search-results" aria-label="Search results" onKeyDown={onArrowKey}>
      {ids.slice(0, MAX_RESULTS).map((id) => {
        const node = map.nodes[id]!;
        return (
          <li key={id}>
            <button type="button" onClick={() => selectResult(id)}>
              <NodeIcon type={node.type} status={getStatus(node)} />
              <span class="result-label">{node.label}</span>
              <span class="result-location">{describeLocation(map, id)}</span>
            </button>
          </li>
        );
      })}
      {ids.length > MAX_RESULTS && <li class="more">and {(ids.length - MAX_RESULTS).toLocaleString()} more. Press Enter to go through all.</li>}
    </ul>
  );
}

function onArrowKey(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
  const next = buttons.indexOf(document.activeElement as HTMLElement) + step;
  (next < 0 ? document.getElementById("search") : buttons[next])?.focus();
  event.preventDefault();
}

const describeLocation = (map: Mindmap, id: string): string =>
  [...findAncestors(map, id)]
    .filter((node) => node.id !== ROOT)
    .reverse()
    .map((node) => node.label)
    .join(" › ");

function FilterMenu({ map }: { map: Mindmap }) {
  const types = useSelector(app, (state) => state.types);
  const statuses = useSelector(app, (state) => state.statuses);
  return (
    <Menu icon="filter" label="Filter by type and status" badge={types.size + statuses.size}>
      {() => <Filters map={map} types={types} statuses={statuses} />}
    </Menu>
  );
}

function Filters({ map, types, statuses }: { map: Mindmap; types: ReadonlySet<string>; statuses: ReadonlySet<string> }) {
  const showOnlyMatches = useSelector(app, (state) => state.showOnlyMatches);
  const nodes = Object.values(map.nodes).filter((node) => node.id !== ROOT);
  const typeOptions = [...new Set([...Object.keys(TYPES), ...nodes.map((node) => node.type)])];
  return (
    <div class="filters">
      <fieldset>
        <legend>Status</legend>
        {Object.keys(STATUSES).map((status) => (
          <FilterOption
            key={status}
            isChecked={statuses.has(status)}
            count={nodes.filter((node) => getStatus(node) === status).length}
            toggle={() => app.set({ statuses: toggleInSet(statuses, status) })}
          >
            <NodeIcon type="task" status={status} />
            {STATUSES[status]}
          </FilterOption>
        ))}
      </fieldset>
      <fieldset>
        <legend>Type</legend>
        {typeOptions.map((type) => (
          <FilterOption
            key={type}
            isChecked={types.has(type)}
            count={nodes.filter((node) => node.type === type).length}
            toggle={() => app.set({ types: toggleInSet(types, type) })}
          >
            <NodeIcon type={type} status={type === "task" ? "planned" : null} />
            {getTypeName(type)}
          </FilterOption>
        ))}
      </fieldset>
      <label class="choice only">
        <input type="checkbox" checked={showOnlyMatches} onChange={() => app.set({ showOnlyMatches: !showOnlyMatches })} />
        Show only matches
      </label>
    </div>
  );
}

function FilterOption({ isChecked, count, toggle, children }: { isChecked: boolean; count: number; toggle: () => void; children: preact.ComponentChildren }) {
  return (
    <label class={`choice${count || isChecked ? "" : " none"}`}>
      <input type="checkbox" checked={isChecked} onChange={toggle} />
      {children}
      <span class="count">{count.toLocaleString()}</span>
    </label>
  );
}
