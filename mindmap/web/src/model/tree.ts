// A map's tree as a pane shows it: only some types, each under its nearest ancestor that is shown.

import type { Mindmap, MapNode } from "../api/types";
import { MODEL_TYPES, ROOT, TASK_TYPES } from "./vocabulary";

export interface Branch {
  id: string;
  node: MapNode;
  parent: Branch | null;
  children: Branch[];
  depth: number;
}

export type Keep = (node: MapNode) => boolean;

export const isTask = (node: MapNode): boolean => node.id !== ROOT && TASK_TYPES.includes(node.type);
export const isModel = (node: MapNode): boolean => MODEL_TYPES.includes(node.type);
export const everything: Keep = () => true;

/** The ids on the side of the mental model. Notes and files stand where what they hang under stands. */
export function modelSide(map: Mindmap): Set<string> {
  const found = new Set<string>();
  for (const { id, node, parent } of walked(grown(map))) {
    const borrowed = BORROWED.includes(node.type) && parent !== null && found.has(parent.id);
    if (isModel(node) || borrowed) found.add(id);
  }
  return found;
}

const BORROWED: readonly string[] = ["note", "file"];

/** The tree of the nodes kept; the root always is. Without recursion: maps may be deeper than the stack. */
export function grown(map: Mindmap, keep: Keep = everything): Branch {
  const root: Branch = { id: ROOT, node: map.nodes[ROOT]!, parent: null, children: [], depth: 0 };
  const seen = new Set([ROOT]);
  const open: [MapNode, Branch][] = [];
  const expand = (node: MapNode, over: Branch): void => {
    for (let place = node.children.length - 1; place >= 0; place--) {
      const child = map.nodes[node.children[place]!];
      if (child && !seen.has(child.id)) open.push([child, over]);
    }
  };
  expand(root.node, root);
  for (let next = open.pop(); next; next = open.pop()) {
    const [node, over] = next;
    if (seen.has(node.id)) continue;
    seen.add(node.id);
    expand(node, keep(node) ? planted(node, over) : over);
  }
  return root;
}

function planted(node: MapNode, over: Branch): Branch {
  const branch: Branch = { id: node.id, node, parent: over, children: [], depth: over.depth + 1 };
  over.children.push(branch);
  return branch;
}

/** A branch and all under it, parents first. */
export function* walked(root: Branch): Generator<Branch> {
  const open = [root];
  for (let branch = open.pop(); branch; branch = open.pop()) {
    yield branch;
    for (let place = branch.children.length - 1; place >= 0; place--) open.push(branch.children[place]!);
  }
}

/** The nodes above one, the nearest first. */
export function ancestors(map: Mindmap, id: string): MapNode[] {
  const found: MapNode[] = [];
  const seen = new Set<string>();
  for (let node = map.nodes[map.nodes[id]?.parent ?? ""]; node && !seen.has(node.id); ) {
    seen.add(node.id);
    found.push(node);
    node = map.nodes[node.parent ?? ""];
  }
  return found;
}
