// What touches what: nodes that share a file or a link, and the files of a map with the nodes that have them.

import type { FileTouch, Link, Mindmap } from "../api/types";

export interface Touched {
  path: string;
  touches: { node: string; touch: FileTouch }[];
}

export interface Crossings {
  /** Every path, with who touched it; the last touched first. */
  files: Touched[];
  byPath: Map<string, Touched>;
  linksOf: Map<string, Link[]>;
}

export function crossings(map: Mindmap): Crossings {
  const byPath = new Map<string, Touched>();
  for (const node of Object.values(map.nodes)) {
    for (const touch of node.files ?? []) {
      const known = byPath.get(touch.path) ?? { path: touch.path, touches: [] };
      known.touches.push({ node: node.id, touch });
      byPath.set(touch.path, known);
    }
  }
  const files = [...byPath.values()].sort((one, other) => compared(newest(other), newest(one)));
  return { files, byPath, linksOf: linked(map.links) };
}

export const newest = (file: Touched): string =>
  file.touches.reduce((last, { touch }) => (touch.timestamp > last ? touch.timestamp : last), "");

const compared = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

function linked(links: Link[]): Map<string, Link[]> {
  const found = new Map<string, Link[]>();
  for (const link of links) {
    for (const end of new Set([link.from, link.to])) found.set(end, [...(found.get(end) ?? []), link]);
  }
  return found;
}

/** The nodes that a node meets: linked with it, touching one of its files, or being a file that it touches. */
export function related(map: Mindmap, cross: Crossings, id: string): Set<string> {
  const found = new Set<string>();
  const node = map.nodes[id];
  if (!node) return found;
  for (const { from, to } of cross.linksOf.get(id) ?? []) found.add(from).add(to);
  for (const { path } of node.files ?? []) for (const other of touching(map, cross, path)) found.add(other);
  if (node.type === "file") for (const other of touching(map, cross, node.label)) found.add(other);
  found.delete(id);
  return found;
}

/** The nodes that a file lights up: those that have it, and file nodes that are called like it. */
export function touching(map: Mindmap, cross: Crossings, path: string): Set<string> {
  const found = new Set((cross.byPath.get(path)?.touches ?? []).map(({ node }) => node));
  for (const node of Object.values(map.nodes)) if (node.type === "file" && node.label === path) found.add(node.id);
  return found;
}
