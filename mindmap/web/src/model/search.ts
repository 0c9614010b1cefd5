// Finding nodes: words anywhere in a node or its files, and what it is, how it stands, which file it has.

import type { MapNode, Mindmap } from "../api/types";
import { isTask } from "./tree";

export interface Wanted {
  words: string[];
  types: Set<string>;
  statuses: Set<string>;
  files: string[];
}

export const nothing = (wanted: Wanted): boolean =>
  !wanted.words.length && !wanted.types.size && !wanted.statuses.size && !wanted.files.length;

/** What a line asks for: `type:risk`, `status:blocked`, `file:src/` and words; "quoted words" are one. */
export function asked(line: string, types: Iterable<string> = [], statuses: Iterable<string> = []): Wanted {
  const wanted: Wanted = { words: [], types: new Set(types), statuses: new Set(statuses), files: [] };
  for (const [, key, quoted, word] of line.matchAll(/(?:(type|status|file):)?(?:"([^"]*)"?|(\S+))/giu)) {
    const value = (quoted ?? word ?? "").toLowerCase();
    if (value) take(wanted, key?.toLowerCase(), value);
  }
  return wanted;
}

function take(wanted: Wanted, key: string | undefined, value: string): void {
  if (key === "type") wanted.types.add(value.replace(/[ -]/g, "_"));
  else if (key === "status") wanted.statuses.add(value.replace(/[ -]/g, "_"));
  else if (key === "file") wanted.files.push(value);
  else wanted.words.push(value);
}

/** The ids of what is wanted, in the order of the map. */
export function found(map: Mindmap, wanted: Wanted): string[] {
  if (nothing(wanted)) return [];
  return Object.values(map.nodes)
    .filter((node) => matches(node, wanted))
    .map((node) => node.id);
}

export function matches(node: MapNode, wanted: Wanted): boolean {
  if (wanted.types.size && !wanted.types.has(node.type)) return false;
  if (wanted.statuses.size && !(isTask(node) && wanted.statuses.has(node.status ?? "planned"))) return false;
  const paths = pathsOf(node);
  if (!wanted.files.every((part) => paths.some((path) => path.includes(part)))) return false;
  const text = wanted.words.length ? textOf(node) : "";
  return wanted.words.every((word) => text.includes(word));
}

const pathsOf = (node: MapNode): string[] => {
  const touched = (node.files ?? []).flatMap(({ path, previousPath }) => [path, previousPath ?? ""]);
  return [...touched, node.type === "file" ? node.label : ""].map((path) => path.toLowerCase());
};

const texts = new WeakMap<MapNode, string>();

function textOf(node: MapNode): string {
  let text = texts.get(node);
  if (text === undefined) texts.set(node, (text = textsIn(node).join("\n").toLowerCase()));
  return text;
}

function textsIn(node: MapNode): string[] {
  const said = [node.label, node.id];
  for (const touch of node.files ?? []) {
    said.push(touch.path, touch.summary ?? "", ...(touch.symbols ?? []));
    for (const change of touch.changes ?? []) said.push(change.symbol, change.detail ?? "");
  }
  return said;
}
