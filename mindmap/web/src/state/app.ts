// Everything the page knows, in one value.

import type { Failure, Problem } from "../api/client";
import type { Mindmap, Summary } from "../api/types";
import { type Crossings, crossings } from "../model/related";
import { type Freshness } from "../model/changes";
import { named } from "../model/named";
import { type Progress, progressUnder } from "../model/progress";
import { touching, related } from "../model/related";
import { asked, found, nothing } from "../model/search";
import { modelSide } from "../model/tree";
import type { Route, View } from "./route";
import { Store } from "./store";

export type Connection = "connecting" | "live" | "offline";
export type Theme = "system" | "light" | "dark";
export type Tab = "node" | "files" | "activity";
export type Dialog = "help" | null;

export interface App {
  route: Route;
  connection: Connection;
  sessions: Summary[] | null;
  /** Files that cannot be shown. */
  broken: Problem[];
  dataDir: string;
  map: Mindmap | null;
  failure: Failure | null;
  collapsed: ReadonlySet<string>;
  fresh: ReadonlyMap<string, Freshness>;
  hovered: string | null;
  file: string | null;
  search: string;
  types: ReadonlySet<string>;
  statuses: ReadonlySet<string>;
  only: boolean;
  /** Place in the activity log, 0 the newest; none when the map is watched live. */
  step: number | null;
  follow: boolean;
  tab: Tab;
  panel: boolean;
  dialog: Dialog;
  theme: Theme;
  notice: { text: string; bad: boolean } | null;
  syncing: boolean;
  narrow: boolean;
}

export const app = new Store<App>({
  route: { map: null, node: null, view: null },
  connection: "connecting",
  sessions: null,
  broken: [],
  dataDir: "",
  map: null,
  failure: null,
  collapsed: new Set(),
  fresh: new Map(),
  hovered: null,
  file: null,
  search: "",
  types: new Set(),
  statuses: new Set(),
  only: false,
  step: null,
  follow: false,
  tab: "node",
  panel: true,
  dialog: null,
  theme: "system",
  notice: null,
  syncing: false,
  narrow: false,
});

/** A function of one object, worked out once for each. */
export function once<Key extends object, Value>(work: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) known.set(key, (value = work(key)));
    return value;
  };
}

export const crossingsOf: (map: Mindmap) => Crossings = once(crossings);
export const progressOf: (map: Mindmap) => Map<string, Progress> = once(progressUnder);
export const modelSideOf: (map: Mindmap) => ReadonlySet<string> = once(modelSide);

/** The view asked for, or the one that suits: side by side where there is room and something to stand there. */
export function viewOf({ route, map, narrow }: App): View {
  return route.view ?? (map && modelSideOf(map).size && !narrow ? "both" : "map");
}

/** The ids that search and filters find; none where nothing is asked for. */
export const foundIn = (state: App): ReadonlySet<string> | null =>
  lastFound(state.map, state.search, state.types, state.statuses);

const lastFound = last((map: Mindmap | null, line: string, types: ReadonlySet<string>, statuses: ReadonlySet<string>) => {
  const wanted = asked(line, types, statuses);
  return map && !nothing(wanted) ? new Set(found(map, wanted)) : null;
});

export interface Lit {
  /** What is pointed at meets these; or a file or a step of the log names them. */
  nodes: ReadonlySet<string>;
  /** Whether everything else steps back. */
  alone: boolean;
}

/** What the node selected or pointed at, the file or the step of the log lights up. */
export const litIn = (state: App): Lit => lastLit(state.map, state.step, state.file, state.hovered ?? state.route.node);

const lastLit = last((map: Mindmap | null, step: number | null, file: string | null, node: string | null): Lit => {
  if (!map) return { nodes: new Set(), alone: false };
  const cross = crossingsOf(map);
  const entry = step === null ? undefined : map.activityLog[step];
  if (entry) return { nodes: named(map, cross, entry), alone: true };
  if (file !== null) return { nodes: touching(map, cross, file), alone: true };
  return { nodes: node ? related(map, cross, node) : new Set(), alone: false };
});

/** A function that remembers its last answer: the state changes often, and seldom in what this asks for. */
function last<Given extends unknown[], Value>(work: (...given: Given) => Value): (...given: Given) => Value {
  let known: { given: Given; value: Value } | null = null;
  return (...given) => {
    if (!known || known.given.some((one, place) => !Object.is(one, given[place]))) known = { given, value: work(...given) };
    return known.value;
  };
}
