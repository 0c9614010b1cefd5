// Outline of the map: a tree of rows with status and progress. Phones show it first.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { findActiveTask } from "../model/progress";
import { type Branch, buildTree, findAncestors } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { getStatus } from "../render/card";
import { app, getMatches, getProgress } from "../state/app";
import { select, toggleInSet } from "../state/actions";
import { chooseCollapsedNodes, collapseTree } from "../state/collapse";
import { useSelector } from "../state/store";
import { NodeIcon, TaskProgress, ToolIcon } from "./icon";

// About three screens of a phone. More is collapsed at first, completed branches before others.
const MAX_ROWS = 40;

export function Outline() {
  const map = useSelector(app, (state) => state.map)!;
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(() => chooseCollapsedRows(map));
  const list = useRef<HTMLDivElement>(null);
  const selected = useSelector(app, (state) => state.route.node);
  const lastShown = useRef<string | null | undefined>(undefined);
  useLayoutEffect(() => {
    if (lastShown.current === selected) return;
    const ancestors = new Set(selected ? findAncestors(map, selected).map(({ id }) => id) : []);
    const expanded = new Set([...collapsed].filter((id) => !ancestors.has(id)));
    if (expanded.size < collapsed.size) return setCollapsed(expanded); // then the effect runs again
    lastShown.current = selected;
    list.current!.querySelector(selected ? ".selected" : "[aria-current]")?.scrollIntoView({ block: selected ? "nearest" : "center" });
  }, [selected, collapsed]);
  return (
    <div class="outline">
      <TaskProgress progress={getProgress(map).get(ROOT)} />
      <div ref={list} class="outline-rows" role="region" aria-label="Outline" tabIndex={0}>
        <Rows branches={buildTree(map).children} collapsed={collapsed} toggle={(id) => setCollapsed(toggleInSet(collapsed, id))} />
      </div>
    </div>
  );
}

function chooseCollapsedRows(map: Mindmap): Set<string> {
  const tree = buildTree(map);
  const fits = (collapsed: ReadonlySet<string>): boolean => new Set(collapseTree(tree, collapsed).visibleIdOf.values()).size <= MAX_ROWS;
  return chooseCollapsedNodes(map, [{ has: () => true, fits }]);
}

function Rows({ branches, collapsed, toggle }: { branches: Branch[]; collapsed: ReadonlySet<string>; toggle: (id: string) => void }) {
  const map = useSelector(app, (state) => state.map)!;
  const matches = useSelector(app, getMatches);
  const selected = useSelector(app, (state) => state.route.node);
  const active = findActiveTask(map);
  return (
    <ul>
      {branches.map(({ id, node, children }) => {
        const progress = getProgress(map).get(id);
        const isCollapsed = collapsed.has(id);
        return (
          <li key={id}>
            <div class={`outline-row${id === selected ? " selected" : ""}${matches && !matches.has(id) ? " faded" : ""}`}>
              {children.length ? (
                <button type="button" class="outline-toggle" aria-expanded={!isCollapsed} aria-label={`Children of ${node.label}`} onClick={() => toggle(id)}>
                  <ToolIcon name={isCollapsed ? "right" : "down"} />
                </button>
              ) : (
                <span class="outline-toggle" />
              )}
              <button type="button" class="node-button" aria-current={id === active ? "step" : undefined} onClick={() => showNode(id)}>
                <NodeIcon type={node.type} status={getStatus(node)} />
                <span>{node.label}</span>
              </button>
              {!!progress?.total && (
                <span class="outline-count">
                  {progress.done}/{progress.total}
                </span>
              )}
            </div>
            {children.length > 0 && !isCollapsed && <Rows branches={children} collapsed={collapsed} toggle={toggle} />}
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
