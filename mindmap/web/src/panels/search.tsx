// Finding nodes: words and filters on top of the map, and a list of what is found.

import { useRef, useState } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { ancestors, isTask } from "../model/tree";
import { ROOT, STATUSES, TYPES, typeName } from "../model/vocabulary";
import { statusOf } from "../render/card";
import { app, foundIn } from "../state/app";
import { clearSearch, nextFound, select, toggled } from "../state/actions";
import { useChosen } from "../state/store";
import { Mark, Tool, ToolIcon } from "./icon";
import { Menu } from "./menu";

const LISTED = 50;

export function Search() {
  const map = useChosen(app, (state) => state.map)!;
  const line = useChosen(app, (state) => state.search);
  const found = useChosen(app, foundIn);
  const [listing, setListing] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  const list = [...(found ?? [])];
  return (
    <div
      ref={whole}
      class="search"
      role="search"
      onFocusOut={(event) => whole.current!.contains(event.relatedTarget as Node | null) || setListing(false)}
    >
      <ToolIcon name="search" />
      <input
        id="search"
        type="search"
        placeholder="Find nodes, files, symbols"
        aria-label="Find by words, type:, status: and file:"
        aria-keyshortcuts="/"
        autocomplete="off"
        spellcheck={false}
        value={line}
        onInput={(event) => {
          app.set({ search: event.currentTarget.value });
          setListing(true);
        }}
        onFocus={() => setListing(true)}
        onKeyDown={(event) => keyed(event, () => setListing(false))}
      />
      {found && (
        <span class="hits" role="status">
          {found.size.toLocaleString()}
          <span class="visually-hidden"> found</span>
        </span>
      )}
      {found && <Tool icon="close" label="Clear search and filters" onClick={clearSearch} />}
      <Filters map={map} />
      {listing && found && line && <Found map={map} ids={list} close={() => setListing(false)} />}
    </div>
  );
}

function keyed(event: KeyboardEvent, close: () => void): void {
  if (event.key === "Enter") nextFound(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    if (app.get().search) app.set({ search: "" });
    else (event.currentTarget as HTMLElement).blur();
    close();
  } else if (event.key === "ArrowDown") {
    const first = (event.currentTarget as HTMLElement).parentElement!.querySelector<HTMLElement>(".found button");
    first?.focus();
  } else return;
  event.preventDefault();
}

function Found({ map, ids, close }: { map: Mindmap; ids: string[]; close: () => void }) {
  const choose = (id: string): void => {
    select(id);
    close();
  };
  if (!ids.length) return <div class="found none">Nothing has these words.</div>;
  return (
    <ul class="found" aria-label="Found" onKeyDown={arrows}>
      {ids.slice(0, LISTED).map((id) => {
        const node = map.nodes[id]!;
        return (
          <li key={id}>
            <button type="button" onClick={() => choose(id)}>
              <Mark type={node.type} status={statusOf(node)} />
              <span class="found-label">{node.label}</span>
              <span class="found-where">{whereOf(map, id)}</span>
            </button>
          </li>
        );
      })}
      {ids.length > LISTED && <li class="more">and {(ids.length - LISTED).toLocaleString()} more: Enter goes through all of them</li>}
    </ul>
  );
}

function arrows(event: KeyboardEvent): void {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
  const next = buttons.indexOf(document.activeElement as HTMLElement) + by;
  (next < 0 ? document.getElementById("search") : buttons[next])?.focus();
  event.preventDefault();
}

const whereOf = (map: Mindmap, id: string): string =>
  [...ancestors(map, id)]
    .filter((node) => node.id !== ROOT)
    .reverse()
    .map((node) => node.label)
    .join(" › ");

function Filters({ map }: { map: Mindmap }) {
  const types = useChosen(app, (state) => state.types);
  const statuses = useChosen(app, (state) => state.statuses);
  const only = useChosen(app, (state) => state.only);
  const nodes = Object.values(map.nodes).filter((node) => node.id !== ROOT);
  const present = [...new Set([...Object.keys(TYPES), ...nodes.map((node) => node.type)])];
  return (
    <Menu icon="filter" label="Filter by type and status" badge={types.size + statuses.size}>
      {() => (
        <div class="filters">
          <fieldset>
            <legend>Status</legend>
            {Object.keys(STATUSES).map((status) => (
              <Choice
                key={status}
                on={statuses.has(status)}
                count={nodes.filter((node) => isTask(node) && (node.status ?? "planned") === status).length}
                toggle={() => app.set({ statuses: toggled(statuses, status) })}
              >
                <Mark type="task" status={status} />
                {STATUSES[status]}
              </Choice>
            ))}
          </fieldset>
          <fieldset>
            <legend>Type</legend>
            {present.map((type) => (
              <Choice
                key={type}
                on={types.has(type)}
                count={nodes.filter((node) => node.type === type).length}
                toggle={() => app.set({ types: toggled(types, type) })}
              >
                <Mark type={type} status={type === "task" ? "planned" : null} />
                {typeName(type)}
              </Choice>
            ))}
          </fieldset>
          <label class="choice only">
            <input type="checkbox" checked={only} onChange={() => app.set({ only: !only })} />
            Show only what is found
          </label>
        </div>
      )}
    </Menu>
  );
}

function Choice({ on, count, toggle, children }: { on: boolean; count: number; toggle: () => void; children: preact.ComponentChildren }) {
  return (
    <label class={`choice${count || on ? "" : " none"}`}>
      <input type="checkbox" checked={on} onChange={toggle} />
      {children}
      <span class="count">{count.toLocaleString()}</span>
    </label>
  );
}
