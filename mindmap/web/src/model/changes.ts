// Differences between two states of a map.

import type { MapNode, Mindmap } from "../api/types";

export type ChangeKind = "added" | "changed";
export const CHANGE_NAMES: Record<ChangeKind, string> = { added: "New", changed: "Changed" };

/** Returns the nodes that were added or changed, or have a new link, by id. */
export function findChanges(before: Mindmap, after: Mindmap): Map<string, ChangeKind> {
  const changes = new Map<string, ChangeKind>();
  for (const [id, node] of Object.entries(after.nodes)) {
    const previous = before.nodes[id];
    if (!previous) changes.set(id, "added");
    else if (hasChanged(previous, node)) changes.set(id, "changed");
  }
  const links = new Set(before.links.map((link) => link.id));
  for (const link of after.links) {
    if (links.has(link.id)) continue;
    for (const end of [link.from, link.to]) if (!changes.has(end) && after.nodes[end]) changes.set(end, "changed");
  }
  return changes;
}

/** Checks whether nodes were added, removed or moved to another parent. */
export function hasTreeChanged(before: Mindmap, after: Mindmap): boolean {
  const ids = Object.keys(after.nodes);
  return ids.length !== Object.keys(before.nodes).length || ids.some((id) => before.nodes[id]?.parent !== after.nodes[id]!.parent);
}

// New children do not count as a change of their parent.
const hasChanged = (a: MapNode, b: MapNode): boolean =>
  a.label !== b.label ||
  a.type !== b.type ||
  a.status !== b.status ||
  a.reason !== b.reason ||
  a.parent !== b.parent ||
  FIELDS_WITH_LISTS.some((field) => (!!a[field] || !!b[field]) && serialize(a[field]) !== serialize(b[field]));

const FIELDS_WITH_LISTS = ["files", "questions", "comments"] as const;

// That an agent got an answer or a comment is no change of the node.
const serialize = (list: object[] = []): string => JSON.stringify(list, (key, value: unknown) => (key === "deliveredAt" ? undefined : value));

const haveSameMessages = (a: MapNode, b: MapNode): boolean =>
  (!a.questions && !b.questions && !a.comments && !b.comments) || JSON.stringify([a.questions, a.comments]) === JSON.stringify([b.questions, b.comments]);

const areEqual = (a: string[], b: string[]): boolean =>
  a.length === b.length && a.every((id, index) => id === b[index]);

/** Returns the map after the change, with the same objects for unchanged nodes, so that their cards stay drawn. */
export function reuseUnchangedNodes(before: Mindmap, after: Mindmap): Mindmap {
  const nodes: Record<string, MapNode> = {};
  for (const [id, node] of Object.entries(after.nodes)) {
    const previous = before.nodes[id];
    nodes[id] = previous && !hasChanged(previous, node) && areEqual(previous.children, node.children) && haveSameMessages(previous, node) ? previous : node;
  }
  return { ...after, nodes };
}
