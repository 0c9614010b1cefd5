// Node search by words, type, status and file.

import type { MapNode, Mindmap } from "../api/types";
import { isTask } from "./tree";

export interface SearchQuery {
  words: string[];
  types: Set<string>;
  statuses: Set<string>;
  files: string[];
}

export const isEmptyQuery = (query: SearchQuery): boolean =>
  !query.words.length && !query.types.size && !query.statuses.size && !query.files.length;

/** Parses a search line: words, "quoted phrases", `type:risk`, `status:blocked` and `file:src/`. */
export function parseQuery(line: string, types: Iterable<string> = [], statuses: Iterable<string> = []): SearchQuery {
  const query: SearchQuery = { words: [], types: new Set(types), statuses: new Set(statuses), files: [] };
  for (const [, key, quoted, word] of line.matchAll(/(?:(type|status|file):)?(?:"([^"]*)"?|(\S+))/giu)) {
    const value = (quoted ?? word ?? "").toLowerCase();
    if (value) addTerm(query, key?.toLowerCase(), value);
  }
  return query;
}

function addTerm(query: SearchQuery, key: string | undefined, value: string): void {
  if (key === "type") query.types.add(value.replace(/[ -]/g, "_"));
  else if (key === "status") query.statuses.add(value.replace(/[ -]/g, "_"));
  else if (key === "file") query.files.push(value);
  else query.words.push(value);
}

/** Returns the ids of matching nodes, in the map's order; none for an empty query. */
export function findNodes(map: Mindmap, query: SearchQuery): string[] {
  if (isEmptyQuery(query)) return [];
  return Object.values(map.nodes)
    .filter((node) => matchesQuery(node, query))
    .map((node) => node.id);
}

export function matchesQuery(node: MapNode, query: SearchQuery): boolean {
  if (query.types.size && !query.types.has(node.type)) return false;
  if (query.statuses.size && !(isTask(node) && query.statuses.has(node.status ?? "planned"))) return false;
  const paths = pathsOf(node);
  if (!query.files.every((part) => paths.some((path) => path.includes(part)))) return false;
  const text = query.words.length ? textOf(node) : "";
  return query.words.every((word) => text.includes(word));
}

const pathsOf = (node: MapNode): string[] => {
  const paths = (node.files ?? []).flatMap(({ path, previousPath }) => [path, previousPath ?? ""]);
  return [...paths, node.type === "file" ? node.label : ""].map((path) => path.toLowerCase());
};

const texts = new WeakMap<MapNode, string>();

function textOf(node: MapNode): string {
  let text = texts.get(node);
  if (text === undefined) texts.set(node, (text = collectTexts(node).join("\n").toLowerCase()));
  return text;
}

function collectTexts(node: MapNode): string[] {
  const texts = [node.label, node.id];
  for (const touch of node.files ?? []) {
    texts.push(touch.path, touch.summary ?? "", ...(touch.symbols ?? []));
    for (const change of touch.changes ?? []) texts.push(change.symbol, change.detail ?? "");
  }
  return texts;
}
