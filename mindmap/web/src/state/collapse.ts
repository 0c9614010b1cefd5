// Choice of the nodes to collapse, and trees without the descendants of collapsed nodes.

import type { Mindmap } from "../api/types";
import { computeProgress, findActiveTask, isDone } from "../model/progress";
import { type Branch, findAncestors, getStatus, getTree, memoizeByObject } from "../model/tree";
import { ROOT } from "../model/vocabulary";

const ACTIVE_STATUSES = new Set(["in_progress", "blocked"]);
// Expanding a part stops after this many branches that do not fit, because few other branches would.
const MAX_REJECTED = 24;
// About three screens of a phone.
const MAX_ROWS = 40;

/** Part of a map in one pane. */
export interface PartToFit {
  /** Checks whether this part has a node with this id and with children. */
  has: (id: string) => boolean;
  /** Checks whether the part fits its pane with these nodes collapsed. */
  fits: (collapsed: ReadonlySet<string>) => boolean;
}

/**
 * Returns the ids of the nodes to collapse. The root, the path to the task in progress and the paths to `idsToShow` are
 * always expanded, even in a part that does not fit its pane. Further nodes are expanded while their part fits: the paths
 * to other active tasks, then the levels from the top, then completed branches.
 */
export function chooseCollapsedNodes(map: Mindmap, parts: PartToFit[], idsToShow: Iterable<string> = []): Set<string> {
  const collapsed = new Set(Object.values(map.nodes).flatMap((node) => (node.children.length && node.id !== ROOT ? node.id : [])));
  for (const id of [findActiveTask(map) ?? ROOT, ...idsToShow]) for (const ancestor of findAncestors(map, id)) collapsed.delete(ancestor.id);
  // Nothing more is expanded in a part that does not fit even with these nodes collapsed.
  const fittingParts = parts.filter(({ fits }) => fits(collapsed));
  const order = fittingParts.length ? listByImportance(map) : [];
  for (const { has, fits } of fittingParts) {
    let rejectedCount = 0;
    for (const id of order) {
      const toExpand = [id, ...findAncestors(map, id).map((node) => node.id)].filter((candidate) => collapsed.has(candidate) && has(candidate));
      if (!toExpand.length) continue;
      for (const candidate of toExpand) collapsed.delete(candidate);
      if (fits(collapsed)) continue;
      for (const candidate of toExpand) collapsed.add(candidate);
      if (++rejectedCount === MAX_REJECTED) break;
    }
  }
  return collapsed;
}

/** Returns the nodes with children in the order in which they are expanded. Cached for each map. */
const listByImportance: (map: Mindmap) => string[] = memoizeByObject((map) => {
  const nodes = Object.values(map.nodes);
  const activeParents = nodes.filter((node) => ACTIVE_STATUSES.has(getStatus(node) ?? "")).flatMap((node) => node.parent ?? []);
  const progressById = computeProgress(map);
  const byLevel = listNodesByLevel(map).filter((id) => map.nodes[id]!.children.length);
  const isCompleted = (id: string): boolean => getStatus(map.nodes[id]!) === "completed" || isDone(progressById.get(id)!);
  return [...activeParents, ...byLevel.filter((id) => !isCompleted(id)), ...byLevel.filter(isCompleted)];
});

/** Returns the ids of the nodes to collapse so that an outline has at most MAX_ROWS rows, if possible. */
export function chooseCollapsedRows(map: Mindmap): Set<string> {
  const tree = getTree(map);
  const fits = (collapsed: ReadonlySet<string>): boolean => new Set(collapseTree(tree, collapsed).visibleIdOf.values()).size <= MAX_ROWS;
  return chooseCollapsedNodes(map, [{ has: () => true, fits }]);
}

function listNodesByLevel(map: Mindmap): string[] {
  const order: string[] = [];
  for (let level = [getTree(map)]; level.length; level = level.flatMap((branch) => branch.children)) {
    order.push(...level.map((branch) => branch.id));
  }
  return order;
}

/**
 * Copies a tree without the descendants of collapsed nodes. Returns the copy, the number of hidden nodes below each
 * collapsed node, and for each node the id of the node whose card shows it: its own id, or the id of a collapsed ancestor.
 */
export function collapseTree(root: Branch, collapsed: ReadonlySet<string>): { tree: Branch; hiddenCounts: Map<string, number>; visibleIdOf: Map<string, string> } {
  const hiddenCounts = new Map<string, number>();
  const visibleIdOf = new Map<string, string>();
  const tree: Branch = { ...root, children: [], parent: null };
  const stack: { from: Branch; to: Branch | null; cardId: string }[] = [{ from: root, to: tree, cardId: root.id }];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { from, to, cardId } = next;
    visibleIdOf.set(from.id, cardId);
    if (!to) hiddenCounts.set(cardId, (hiddenCounts.get(cardId) ?? 0) + 1);
    const isHidden = !to || collapsed.has(from.id);
    const children = from.children.map((child) => (isHidden ? null : { ...child, children: [], parent: to }));
    if (!isHidden) to.children.push(...(children as Branch[]));
    for (let index = from.children.length - 1; index >= 0; index--) {
      const child = from.children[index]!;
      stack.push({ from: child, to: children[index]!, cardId: isHidden ? cardId : child.id });
    }
  }
  return { tree, hiddenCounts, visibleIdOf };
}
