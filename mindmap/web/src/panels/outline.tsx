// Outline of the map: a tree of rows with status and progress. Phones show it first.

import { useLayoutEffect, useRef } from "preact/hooks";
import { CHANGE_NAMES } from "../model/changes";
import { computeProgress, findActiveTask } from "../model/progress";
import { type Branch, findAncestors, getStatus, getTree, memoizeByObject } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { select, toggleCollapsed } from "../state/actions";
import { app, getMatches, useSelector } from "../state/app";
import { chooseCollapsedRows } from "../state/collapse";
import { NodeIcon, TaskProgress, ToolIcon } from "./widgets";

const getFirstCollapsedRows = memoizeByObject(chooseCollapsedRows);

export function Outline() {
  const map = useSelector(app, (state) => state.map)!;
  const collapsed = useSelector(app, (state) => state.collapsedRows) ?? getFirstCollapsedRows(map);
  useLayoutEffect(() => app.set({ collapsedRows: collapsed }), [map.id]);
  const list = useRef<HTMLDivElement>(null);
  const selected = useSelector(app, (state) => state.route.node);
  const isScrolled = useRef(false);
  useLayoutEffect(() => {
    if (app.get().lastScrolledNode !== selected) {
      const ancestors = new Set(selected ? findAncestors(map, selected).map(({ id }) => id) : []);
      const expanded = new Set([...collapsed].filter((id) => !ancestors.has(id)));
      if (expanded.size < collapsed.size) return app.set({ collapsedRows: expanded }); // then the effect runs again and scrolls
    } else if (isScrolled.current) return;
    app.set({ lastScrolledNode: selected });
    isScrolled.current = true;
    const row = list.current!.querySelector(selected ? ".selected" : "[aria-current]");
    row?.scrollIntoView({ block: selected ? "nearest" : "center" });
    // The arrow keys move the focus with the selection.
    if (list.current!.querySelector("button:focus")) row?.querySelector<HTMLElement>(".node-button")?.focus({ preventScroll: true });
  }, [selected, collapsed]);
  return (
    <div class="outline">
      <TaskProgress progress={computeProgress(map).get(ROOT)} />
      <div ref={list} class="outline-rows" role="region" aria-label="Outline" tabIndex={0}>
        <Rows branches={getTree(map).children} collapsed={collapsed} />
      </div>
    </div>
  );
}

function Rows({ branches, collapsed }: { branches: Branch[]; collapsed: ReadonlySet<string> }) {
  const map = useSelector(app, (state) => state.map)!;
  const matches = useSelector(app, getMatches);
  const selected = useSelector(app, (state) => state.route.node);
  const unseen = useSelector(app, (state) => state.unseen);
  const active = findActiveTask(map);
  return (
    <ul>
      {branches.map(({ id, node, children }) => {
        const progress = computeProgress(map).get(id);
        const isCollapsed = collapsed.has(id);
        return (
          <li key={id}>
            <div class={`outline-row${id === selected ? " selected" : ""}${matches && !matches.has(id) ? " faded" : ""}`}>
              {children.length ? (
                <button type="button" class="outline-toggle" aria-expanded={!isCollapsed} aria-label={`Children of ${node.label}`} onClick={() => toggleCollapsed(id)}>
                  <ToolIcon name={isCollapsed ? "right" : "down"} />
                </button>
              ) : (
                <span class="outline-toggle" />
              )}
              <button type="button" class="node-button" aria-current={id === active ? "step" : undefined} onClick={() => showNode(id)}>
                <NodeIcon type={node.type} status={getStatus(node)} />
                <span>{node.label}</span>
              </button>
              {unseen.has(id) && <span class="unseen-row">{CHANGE_NAMES[unseen.get(id)!]}</span>}
              {!!progress?.total && (
                <span class="outline-count">
                  {progress.done}/{progress.total}
                </span>
              )}
            </div>
            {children.length > 0 && !isCollapsed && <Rows branches={children} collapsed={collapsed} />}
          </li>
        );
      })}
    </ul>
  );
}

function showNode(id: string): void {
  select(id);
  app.set({ isPanelOpen: true });
}
