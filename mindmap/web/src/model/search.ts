// Node search by words, type, status and file.

import type { MapNode, Mindmap } from "../api/types";
import { getStatus } from "./tree";

/** Conditions that a node must all meet. */
export interface SearchQuery {
  /** Parts of the node's texts, in lower case. */
  words: string[];
  /** The node has one of these types; any type if empty. */
  types: Set<string>;
  /** The node is a task with one of these statuses; any node if empty. */
  statuses: Set<string>;
  /** Parts of file paths, in lower case. */
  files: string[];
}

export const isEmptyQuery = (query: SearchQuery): boolean =>
  !query.words.length && !query.types.size && !query.statuses.size && !query.files.length;

/**
 * Parses the text of the search field: words, "quoted phrases", `type:risk`, `status:blocked` and `file:src/`. The types
 * and statuses that are chosen in the filter menu are added to the query.
 */
export function parseQuery(queryText: string, types: Iterable<string> = [], statuses: Iterable<string> = []): SearchQuery {
  const query: SearchQuery = { words: [], types: new Set(types), statuses: new Set(statuses), files: [] };
  for (const [, key, quoted, word] of queryText.matchAll(/(?:(type|status|file):)?(?:"([^"]*)"?|(\S+))/giu)) {
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

/** Returns the ids of the matching nodes, in the map's order; none for an empty query. */
export function findNodes(map: Mindmap, query: SearchQuery): string[] {
  if (isEmptyQuery(query)) return [];
  return Object.values(map.nodes)
    .filter((node) => isMatch(node, query))
    .map((node) => node.id);
}

function isMatch(node: MapNode, query: SearchQuery): boolean {
  if (query.types.size && !query.types.has(node.type)) return false;
  if (query.statuses.size && !query.statuses.has(getStatus(node) ?? "")) return false;
  const paths = collectPaths(node);
  if (!query.files.every((pathPart) => paths.some((path) => path.includes(pathPart)))) return false;
  const text = query.words.length ? getSearchText(node) : "";
  return query.words.every((word) => text.includes(word));
}

const collectPaths = (node: MapNode): string[] => {
  const paths = (node.files ?? []).flatMap(({ path, previousPath }) => [path, previousPath ?? ""]);
  return [...paths, node.type === "file" ? node.label : ""].map((path) => path.toLowerCase());
};

const searchTexts = new WeakMap<MapNode, string>();

/** Returns the cached text of a node for word search, in lower case. */
function getSearchText(node: MapNode): string {
  let text = searchTexts.get(node);
  if (text === undefined) searchTexts.set(node, (text = collectTexts(node).join("\n").toLowerCase()));
  return text;
}

function collectTexts(node: MapNode): string[] {
  const texts = [node.label, node.id, node.reason ?? ""];
  for (const touch of node.files ?? []) {
    texts.push(touch.path, touch.summary ?? "", ...(touch.symbols ?? []));
    for (const change of touch.changes ?? []) texts.push(change.symbol, change.detail ?? "");
  }
  return texts;
}
