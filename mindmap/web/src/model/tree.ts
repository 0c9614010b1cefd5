// Tree of the nodes that a pane shows, each below its nearest shown ancestor. The mental model and the plan are the two
// parts of a map.

import type { MapNode, Mindmap } from "../api/types";
import { MODEL_TYPES, ROOT, TASK_TYPES } from "./vocabulary";

/** Node in its place in the tree; the root has depth 0. */
export interface Branch {
  id: string;
  node: MapNode;
  parent: Branch | null;
  children: Branch[];
  depth: number;
}

type NodeFilter = (node: MapNode) => boolean;

export const isTask = (node: MapNode): boolean => node.id !== ROOT && TASK_TYPES.includes(node.type);
/** Returns the status of a task, `planned` if it has none; null for other nodes. */
export const getStatus = (node: MapNode): string | null => (isTask(node) ? (node.status ?? "planned") : null);
export const isModelNode = (node: MapNode): boolean => MODEL_TYPES.includes(node.type);

/** Returns the ids of the mental model's nodes. Notes and files belong to the part of their parent. */
export function findModelNodeIds(map: Mindmap): Set<string> {
  const ids = new Set<string>();
  for (const { id, node, parent } of walkTree(getTree(map))) {
    const isBelowModelNode = TYPES_WITHOUT_OWN_PART.includes(node.type) && parent !== null && ids.has(parent.id);
    if (isModelNode(node) || isBelowModelNode) ids.add(id);
  }
  return ids;
}

const TYPES_WITHOUT_OWN_PART: readonly string[] = ["note", "file"];

/** Builds the tree of the root and the nodes that pass the filter. Not recursive, because a deep map would exceed the call stack. */
export function buildTree(map: Mindmap, includes: NodeFilter = () => true): Branch {
  const root: Branch = { id: ROOT, node: map.nodes[ROOT]!, parent: null, children: [], depth: 0 };
  const seen = new Set([ROOT]);
  const stack: [MapNode, Branch][] = [];
  const pushChildren = (node: MapNode, parent: Branch): void => {
    for (let index = node.children.length - 1; index >= 0; index--) {
      const child = map.nodes[node.children[index]!];
      if (child && !seen.has(child.id)) stack.push([child, parent]);
    }
  };
  pushChildren(root.node, root);
  for (let next = stack.pop(); next; next = stack.pop()) {
    const [node, parent] = next;
    if (seen.has(node.id)) continue;
    seen.add(node.id);
    pushChildren(node, includes(node) ? addBranch(node, parent) : parent);
  }
  return root;
}

/** Returns the cached tree of all nodes of a map. */
export const getTree: (map: Mindmap) => Branch = memoizeByObject((map) => buildTree(map));

function addBranch(node: MapNode, parent: Branch): Branch {
  const branch: Branch = { id: node.id, node, parent, children: [], depth: parent.depth + 1 };
  parent.children.push(branch);
  return branch;
}

/** Yields a branch and its descendants, parents first. */
export function* walkTree(root: Branch): Generator<Branch> {
  const stack = [root];
  for (let branch = stack.pop(); branch; branch = stack.pop()) {
    yield branch;
    for (let index = branch.children.length - 1; index >= 0; index--) stack.push(branch.children[index]!);
  }
}

/** Returns a node's ancestors, nearest first. */
export function findAncestors(map: Mindmap, id: string): MapNode[] {
  const nodes: MapNode[] = [];
  const seen = new Set<string>();
  for (let node = map.nodes[map.nodes[id]?.parent ?? ""]; node && !seen.has(node.id); ) {
    seen.add(node.id);
    nodes.push(node);
    node = map.nodes[node.parent ?? ""];
  }
  return nodes;
}

// ---- cache of values that are computed from a map or node

/** Returns a function that caches its result for each object. */
export function memoizeByObject<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const cache = new WeakMap<Key, Value>();
  return (key) => {
    let value = cache.get(key);
    if (value === undefined) cache.set(key, (value = compute(key)));
    return value;
  };
}
