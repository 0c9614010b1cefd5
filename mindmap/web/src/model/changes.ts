// What became different between two states of a map: which nodes are new, which changed.

import type { MapNode, Mindmap } from "../api/types";

export type Freshness = "added" | "changed";

export function changed(before: Mindmap, after: Mindmap): Map<string, Freshness> {
  const found = new Map<string, Freshness>();
  for (const [id, node] of Object.entries(after.nodes)) {
    const old = before.nodes[id];
    if (!old) found.set(id, "added");
    else if (differs(old, node)) found.set(id, "changed");
  }
  const links = new Set(before.links.map((link) => link.id));
  for (const link of after.links) {
    if (links.has(link.id)) continue;
    for (const end of [link.from, link.to]) if (!found.has(end) && after.nodes[end]) found.set(end, "changed");
  }
  return found;
}

// A node that only got children is not changed itself: its children show up as new.
const differs = (one: MapNode, other: MapNode): boolean =>
  one.label !== other.label ||
  one.type !== other.type ||
  one.status !== other.status ||
  one.parent !== other.parent ||
  ((!!one.files || !!other.files) && JSON.stringify(one.files ?? []) !== JSON.stringify(other.files ?? []));

const areSame = (one: string[], other: string[]): boolean =>
  one.length === other.length && one.every((id, place) => id === other[place]);

/** The map after an update with every part that did not change being the same object, so that nothing is drawn again. */
export function kept(before: Mindmap, after: Mindmap): Mindmap {
  const nodes: Record<string, MapNode> = {};
  for (const [id, node] of Object.entries(after.nodes)) {
    const old = before.nodes[id];
    nodes[id] = old && !differs(old, node) && areSame(old.children, node.children) ? old : node;
  }
  return { ...after, nodes };
}
