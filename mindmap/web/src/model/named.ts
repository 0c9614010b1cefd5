// What an entry of the log names: its node, the nodes that have its file, and those its message quotes.

import type { Activity, Mindmap } from "../api/types";
import { type Crossings, touching } from "./related";

// Labels stand in the log as Python writes strings, a long one cut with an ellipsis.
const QUOTED = /'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)"/gu;

export function named(map: Mindmap, cross: Crossings, entry: Activity): Set<string> {
  const found = new Set<string>();
  if (entry.nodeId && map.nodes[entry.nodeId]) found.add(entry.nodeId);
  if (entry.file) for (const id of touching(map, cross, entry.file)) found.add(id);
  if (!found.size) for (const id of quoted(map, entry.message)) found.add(id);
  return found;
}

function quoted(map: Mindmap, message: string): string[] {
  const labels = [...message.matchAll(QUOTED)].map(([, single, double]) => unescaped(single ?? double ?? ""));
  if (!labels.length) return [];
  const isNamed = (label: string): boolean =>
    labels.some((name) => label === name || (name.endsWith("…") && label.startsWith(name.slice(0, -1))));
  return Object.values(map.nodes)
    .filter((node) => isNamed(node.label.split(/\s+/u).join(" ")))
    .map((node) => node.id);
}

const unescaped = (text: string): string => text.replace(/\\(.)/gu, "$1");
