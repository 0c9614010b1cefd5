// Small maps for tests.

import type { FileTouch, MapNode, Mindmap } from "../src/api/types";

type Given = Partial<MapNode> & { under?: string; touches?: (Partial<FileTouch> & { path: string })[] };

/** A map of these nodes, by id; each hangs under the root or under the one named. */
export function aMap(nodes: Record<string, Given>, more: Partial<Mindmap> = {}): Mindmap {
  const map: Mindmap = {
    id: "mm_1",
    title: "A map",
    createdAt: "",
    updatedAt: "",
    nodes: { root: { id: "root", label: "A map", type: "root", parent: null, children: [] } },
    links: [],
    activityLog: [],
    ...more,
  };
  for (const [id, { under = "root", touches, ...given }] of Object.entries(nodes)) {
    const files = touches?.map((touch) => ({ action: "modify", timestamp: "", ...touch }));
    map.nodes[id] = { id, label: id, type: "task", parent: under, children: [], ...given, ...(files ? { files } : {}) };
    map.nodes[under]!.children.push(id);
  }
  return map;
}

export const letters = (text: string): number => [...text].length * 10;
