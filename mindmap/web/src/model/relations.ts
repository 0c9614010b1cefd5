// Relations between nodes: links and shared files.

import type { FileTouch, Link, Mindmap } from "../api/types";

export interface FileTouches {
  path: string;
  touches: { node: string; touch: FileTouch }[];
}

export interface Relations {
  /** All files with the nodes that touched them, most recently touched first. */
  files: FileTouches[];
  byPath: Map<string, FileTouches>;
  linksOf: Map<string, Link[]>;
}

export function buildRelations(map: Mindmap): Relations {
  const byPath = new Map<string, FileTouches>();
  for (const node of Object.values(map.nodes)) {
    for (const touch of node.files ?? []) {
      const file = byPath.get(touch.path) ?? { path: touch.path, touches: [] };
      file.touches.push({ node: node.id, touch });
      byPath.set(touch.path, file);
    }
  }
  const files = [...byPath.values()].sort((a, b) => compareStrings(lastTouched(b), lastTouched(a)));
  return { files, byPath, linksOf: groupLinksByNode(map.links) };
}

export const lastTouched = (file: FileTouches): string =>
  file.touches.reduce((last, { touch }) => (touch.timestamp > last ? touch.timestamp : last), "");

const compareStrings = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function groupLinksByNode(links: Link[]): Map<string, Link[]> {
  const linksByNode = new Map<string, Link[]>();
  for (const link of links) {
    for (const end of new Set([link.from, link.to])) linksByNode.set(end, [...(linksByNode.get(end) ?? []), link]);
  }
  return linksByNode;
}

/** Returns the nodes that are linked with a node, share a file with it, or stand for one of its files. */
export function findRelated(map: Mindmap, relations: Relations, id: string): Set<string> {
  const ids = new Set<string>();
  const node = map.nodes[id];
  if (!node) return ids;
  for (const { from, to } of relations.linksOf.get(id) ?? []) ids.add(from).add(to);
  for (const { path } of node.files ?? []) for (const other of nodesWithFile(map, relations, path)) ids.add(other);
  if (node.type === "file") for (const other of nodesWithFile(map, relations, node.label)) ids.add(other);
  ids.delete(id);
  return ids;
}

/** Returns the nodes with a file, and file nodes with its path as label. */
export function nodesWithFile(map: Mindmap, relations: Relations, path: string): Set<string> {
  const ids = new Set((relations.byPath.get(path)?.touches ?? []).map(({ node }) => node));
  for (const node of Object.values(map.nodes)) if (node.type === "file" && node.label === path) ids.add(node.id);
  return ids;
}
