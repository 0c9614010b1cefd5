// Nodes that a log entry mentions: its node, the nodes with its file, or those whose label its message quotes.

import type { Activity, Mindmap } from "../api/types";
import { type Relations, nodesWithFile } from "./relations";

// The log quotes labels as Python string literals, and truncates long ones with an ellipsis.
const QUOTED = /'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)"/gu;

export function findMentions(map: Mindmap, relations: Relations, entry: Activity): Set<string> {
  const ids = new Set<string>();
  if (entry.nodeId && map.nodes[entry.nodeId]) ids.add(entry.nodeId);
  if (entry.file) for (const id of nodesWithFile(map, relations, entry.file)) ids.add(id);
  if (!ids.size) for (const id of findQuoted(map, entry.message)) ids.add(id);
  return ids;
}

function findQuoted(map: Mindmap, message: string): string[] {
  const labels = [...message.matchAll(QUOTED)].map(([, single, double]) => unescape(single ?? double ?? ""));
  if (!labels.length) return [];
  const isQuoted = (label: string): boolean =>
    labels.some((name) => label === name || (name.endsWith("…") && label.startsWith(name.slice(0, -1))));
  return Object.values(map.nodes)
    .filter((node) => isQuoted(node.label.split(/\s+/u).join(" ")))
    .map((node) => node.id);
}

const unescape = (text: string): string => text.replace(/\\(.)/gu, "$1");
