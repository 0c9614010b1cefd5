// Collapsing of branches.

import type { Mindmap } from "../api/types";
import { findActiveTask } from "../model/progress";
import { type Branch, findAncestors, buildTree } from "../model/tree";
import { ROOT } from "../model/vocabulary";

// More cards do not fit a window at a readable size.
const INITIAL_CARDS = 40;
const ACTIVE_STATUSES = new Set(["in_progress", "blocked"]);

/** Returns the ids of the nodes that are collapsed at first: on a large map, all but the first levels and the active tasks. */
export function chooseCollapsedNodes(map: Mindmap): Set<string> {
  const parents = Object.values(map.nodes).filter((node) => node.children.length);
  if (Object.keys(map.nodes).length <= INITIAL_CARDS) return new Set();
  const expanded = new Set([ROOT]);
  let visibleCount = map.nodes[ROOT]!.children.length;
  for (const id of [findActiveTask(map) ?? ROOT, ...listActiveNodes(map), ...listNodesByLevel(map)]) {
    const toExpand = [map.nodes[id]!, ...findAncestors(map, id)].filter((node) => !expanded.has(node.id));
    const added = toExpand.reduce((sum, node) => sum + node.children.length, 0);
    if (visibleCount + added > INITIAL_CARDS) continue;
    for (const node of toExpand) expanded.add(node.id);
    visibleCount += added;
  }
  return new Set(parents.map((node) => node.id).filter((id) => !expanded.has(id)));
}

const listActiveNodes = (map: Mindmap): string[] =>
  Object.values(map.nodes)
    .filter((node) => ACTIVE_STATUSES.has(node.status ?? ""))
    .map((node) => node.id);

function listNodesByLevel(map: Mindmap): string[] {
  const order: string[] = [];
  for (let level = [buildTree(map)]; level.length; level = level.flatMap((branch) => branch.children)) {
    order.push(...level.map((branch) => branch.id));
  }
  return order;
}

/** Removes the descendants of collapsed nodes. Returns the tree, their number per card, and the card that shows each node. */
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
