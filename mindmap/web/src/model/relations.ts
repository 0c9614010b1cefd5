// Relations between nodes: links and shared files.

import type { FileTouch, Link, Mindmap } from "../api/types";
import { getTree, walkTree } from "./tree";
import { ROOT } from "./vocabulary";

/** File with its touches, each with the id of the node that has it. */
export interface FileTouches {
  path: string;
  touches: { node: string; touch: FileTouch }[];
}

export interface Relations {
  /** All files, most recently touched first. */
  files: FileTouches[];
  filesByPath: Map<string, FileTouches>;
  /** Ids of the nodes of type `file` by their label, which is the path of the file. */
  fileNodesByPath: Map<string, string[]>;
  linksByNode: Map<string, Link[]>;
}

export function buildRelations(map: Mindmap): Relations {
  const filesByPath = new Map<string, FileTouches>();
  const fileNodesByPath = new Map<string, string[]>();
  for (const node of Object.values(map.nodes)) {
    if (node.type === "file") addToGroup(fileNodesByPath, node.label, node.id);
    if (!node.files) continue;
    for (const touch of node.files) {
      const file = filesByPath.get(touch.path) ?? { path: touch.path, touches: [] };
      file.touches.push({ node: node.id, touch });
      filesByPath.set(touch.path, file);
    }
  }
  const files = [...filesByPath.values()].sort((a, b) => compareStrings(getLastTouchTime(b), getLastTouchTime(a)));
  return { files, filesByPath, fileNodesByPath, linksByNode: groupLinksByNode(map.links) };
}

export const getLastTouchTime = (file: FileTouches): string =>
  file.touches.reduce((last, { touch }) => (touch.timestamp > last ? touch.timestamp : last), "");

const compareStrings = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function groupLinksByNode(links: Link[]): Map<string, Link[]> {
  const linksByNode = new Map<string, Link[]>();
  for (const link of links) {
    for (const end of new Set([link.from, link.to])) addToGroup(linksByNode, end, link);
  }
  return linksByNode;
}

export function addToGroup<Value>(groups: Map<string, Value[]>, key: string, value: Value): void {
  const group = groups.get(key);
  if (group) group.push(value);
  else groups.set(key, [value]);
}

/** Returns the links between the plan and the mental model. Links of the root do not count, because it is in both parts. */
export function findCrossLinks(map: Mindmap, modelIds: ReadonlySet<string>): Link[] {
  const planIds = new Set([...walkTree(getTree(map))].flatMap(({ id }) => (id === ROOT || modelIds.has(id) ? [] : id)));
  return map.links.filter(({ from, to }) => (planIds.has(from) && modelIds.has(to)) || (modelIds.has(from) && planIds.has(to)));
}

/** Returns the ids of the nodes that are linked with a node or share a file with it. A node of type `file` has the file of its label. */
export function findRelated(map: Mindmap, relations: Relations, id: string): Set<string> {
  const ids = new Set<string>();
  const node = map.nodes[id];
  if (!node) return ids;
  for (const { from, to } of relations.linksByNode.get(id) ?? []) ids.add(from).add(to);
  for (const { path } of node.files ?? []) for (const other of findNodesWithFile(relations, path)) ids.add(other);
  if (node.type === "file") for (const other of findNodesWithFile(relations, node.label)) ids.add(other);
  ids.delete(id);
  return ids;
}

/** Returns the ids of the nodes with a touch of a file, and of the nodes of type `file` whose label is its path. */
export function findNodesWithFile({ filesByPath, fileNodesByPath }: Relations, path: string): Set<string> {
  const touches = filesByPath.get(path)?.touches ?? [];
  return new Set([...touches.map(({ node }) => node), ...(fileNodesByPath.get(path) ?? [])]);
}
