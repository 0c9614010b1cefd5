// Differences between two states of a map.

import type { MapNode, Mindmap } from "../api/types";
import { describeEntry } from "./activity";

export type ChangeKind = "added" | "changed";
export const CHANGE_NAMES: Record<ChangeKind, string> = { added: "New", changed: "Changed" };

/** Kind of the change of each changed node, by node id. */
export type NodeChanges = ReadonlyMap<string, ChangeKind>;

export interface MapChanges {
  /** Nodes that were added or changed, or have a new link. */
  nodes: NodeChanges;
  /** True if nodes were added, removed or moved to another parent. */
  hasTreeChanged: boolean;
}

/** Reuses the objects of `before` for unchanged nodes of `after`, so that their cards are not drawn again. Returns the changes. */
export function reconcileMap(before: Mindmap, after: Mindmap): MapChanges {
  const changes = new Map<string, ChangeKind>();
  const ids = Object.keys(after.nodes);
  let hasTreeChanged = ids.length !== Object.keys(before.nodes).length;
  for (const id of ids) {
    const node = after.nodes[id]!;
    const previous = before.nodes[id];
    if (previous?.parent !== node.parent) hasTreeChanged = true;
    if (!previous) changes.set(id, "added");
    else if (hasChanged(previous, node)) changes.set(id, "changed");
    else if (areEqual(previous.children, node.children) && haveSameMessages(previous, node) && previous.updatedAt === node.updatedAt) after.nodes[id] = previous;
  }
  const links = new Set(before.links.map((link) => link.id));
  for (const link of after.links) {
    if (links.has(link.id)) continue;
    for (const end of [link.from, link.to]) if (!changes.has(end) && after.nodes[end]) changes.set(end, "changed");
  }
  return { nodes: changes, hasTreeChanged };
}

// New children, and a new `updatedAt` alone, do not count as a change of the node.
const hasChanged = (a: MapNode, b: MapNode): boolean =>
  a.label !== b.label ||
  a.type !== b.type ||
  a.status !== b.status ||
  a.reason !== b.reason ||
  a.parent !== b.parent ||
  !isSameJson(a.files, b.files) ||
  !isSameJson(a.questions, b.questions, omitDelivery) ||
  !isSameJson(a.comments, b.comments, omitDelivery);

const isSameJson = (a: object[] | undefined, b: object[] | undefined, replacer?: (key: string, value: unknown) => unknown): boolean =>
  a === b || JSON.stringify(a ?? [], replacer) === JSON.stringify(b ?? [], replacer);

// The delivery of an answer or a comment to an agent is no change of the node.
const omitDelivery = (key: string, value: unknown): unknown => (key === "deliveredAt" ? undefined : value);

// Unlike `hasChanged`, compares the delivery of answers and comments, too.
const haveSameMessages = (a: MapNode, b: MapNode): boolean => isSameJson(a.questions, b.questions) && isSameJson(a.comments, b.comments);

const areEqual = (a: string[], b: string[]): boolean =>
  a.length === b.length && a.every((id, index) => id === b[index]);

/**
 * Returns the nodes that were updated or got a question after a time; new links and comments do not count. A node that was
 * added and later changed counts as changed.
 */
export function findChangesSince(map: Mindmap, time: string): NodeChanges {
  const additionTimes = new Set(map.activityLog.filter((entry) => describeEntry(entry).kind === "add").map(({ timestamp }) => timestamp));
  const changes = new Map<string, ChangeKind>();
  for (const { id, updatedAt = "", questions = [] } of Object.values(map.nodes)) {
    if (updatedAt > time) changes.set(id, additionTimes.has(updatedAt) ? "added" : "changed");
    else if (questions.some(({ askedAt }) => askedAt > time)) changes.set(id, "changed");
  }
  return changes;
}

// If there is nothing to remove or to add, these two functions return their first argument itself, so that nothing is
// drawn or stored again.

/** Returns the changes without the nodes that the map no longer has. */
export function removeDeletedNodes(changes: NodeChanges, map: Mindmap): NodeChanges {
  const remaining = new Map([...changes].filter(([id]) => map.nodes[id]));
  return remaining.size < changes.size ? remaining : changes;
}

/** Returns earlier and later changes together. A node with both has its later change. */
export const mergeChanges = (earlier: NodeChanges, later: NodeChanges): NodeChanges => (later.size ? new Map([...earlier, ...later]) : earlier);
