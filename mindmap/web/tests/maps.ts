import type { FileTouch, MapNode, Mindmap } from "../src/api/types";

// Sample maps for tests.


type NodeSpec = Partial<MapNode> & { parentId?: string; touches?: (Partial<FileTouch> & { path: string })[] };

/** Creates a map of nodes by id; the parent is the root unless `parentId` names another. */
export function createMap(nodes: Record<string, NodeSpec>, overrides: Partial<Mindmap> = {}): Mindmap {
  const map: Mindmap = {
    id: "mm_1",
    title: "A map",
    createdAt: "",
    updatedAt: "",
    nodes: { root: { id: "root", label: "A map", type: "root", parent: null, children: [] } },
    links: [],
    activityLog: [],
    ...overrides,
  };
  for (const [id, { parentId = "root", touches, ...fields }] of Object.entries(nodes)) {
    const files = touches?.map((touch) => ({ action: "modify", timestamp: "", ...touch }));
    map.nodes[id] = { id, label: id, type: "task", parent: parentId, children: [], ...fields, ...(files ? { files } : {}) };
    map.nodes[parentId]!.children.push(id);
  }
  return map;
}

export const measureFixedWidth = (text: string): number => [...text].length * 10;
