// Nodes that an entry of the activity log mentions.

import type { Activity, Mindmap } from "../api/types";
import { type Relations, findNodesWithFile } from "./relations";

// The log quotes labels as Python string literals, and truncates long ones with an ellipsis.
const QUOTED = /'((?:[^'\\]|\\.)+)'|"((?:[^"\\]|\\.)+)"/gu;

/** Returns the ids of the entry's node and the nodes with its file; without any, of nodes whose label the message quotes. */
export function findMentions(map: Mindmap, relations: Relations, entry: Activity): Set<string> {
  const ids = new Set<string>();
  if (entry.nodeId && map.nodes[entry.nodeId]) ids.add(entry.nodeId);
  if (entry.file) for (const id of findNodesWithFile(map, relations, entry.file)) ids.add(id);
  if (!ids.size) for (const id of findNodesWithQuotedLabel(map, entry.message)) ids.add(id);
  return ids;
}

function findNodesWithQuotedLabel(map: Mindmap, message: string): string[] {
  const labels = [...message.matchAll(QUOTED)].map(([, single, double]) => removeBackslashes(single ?? double ?? ""));
  if (!labels.length) return [];
  const isQuoted = (label: string): boolean =>
    labels.some((name) => label === name || (name.endsWith("…") && label.startsWith(name.slice(0, -1))));
  return Object.values(map.nodes)
    .filter((node) => isQuoted(node.label.split(/\s+/u).join(" ")))
    .map((node) => node.id);
}

const removeBackslashes = (text: string): string => text.replace(/\\(.)/gu, "$1");
