// State of the page, with the route in the URL, and the values that are computed from the state.

import { useLayoutEffect, useReducer, useRef } from "preact/hooks";
import type { ApiError, Problem } from "../api/client";
import type { Link, Mindmap, SessionSummary } from "../api/types";
import { findMentions } from "../model/activity";
import type { NodeChanges } from "../model/changes";
import { type Relations, buildRelations, findCrossLinks, findNodesWithFile, findRelated } from "../model/relations";
import { findNodes, isEmptyQuery, parseQuery } from "../model/search";
import { findModelNodeIds, memoizeByObject } from "../model/tree";

// ---- route

export type View = "map" | "plan" | "model" | "both";
export const VIEWS: readonly View[] = ["both", "map", "plan", "model"];

/** Route in the URL fragment: `#/` for the sessions, `#/map/ID/node/NODE?view=plan` for a node of a map in a view. */
export interface Route {
  map: string | null;
  node: string | null;
  /** Null if the URL names no view; the page then shows a view that suits the map and the window. */
  view: View | null;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/u, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodePart);
  const view = new URLSearchParams(query).get("view") as View | null;
  return {
    map: parts[0] === "map" && parts[1] ? parts[1] : null,
    node: parts[2] === "node" && parts[3] ? parts[3] : null,
    view: view && VIEWS.includes(view) ? view : null,
  };
}

export function formatRoute({ map, node, view }: Route): string {
  if (!map) return "#/";
  const nodePart = node ? `/node/${encodeURIComponent(node)}` : "";
  return `#/map/${encodeURIComponent(map)}${nodePart}${view ? `?view=${view}` : ""}`;
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}

// ---- store

/** Observable container of a state. */
class Store<State extends object> {
  private readonly listeners = new Set<() => void>();

  constructor(private state: State) {}

  get(): State {
    return this.state;
  }

  set(changes: Partial<State>): void {
    this.state = { ...this.state, ...changes };
    for (const listener of [...this.listeners]) listener();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Hook that returns a selected value and re-renders the component when it changes. */
export function useSelector<State extends object, Selected>(
  store: Store<State>,
  selector: (state: State) => Selected,
): Selected {
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  const selected = selector(store.get());
  const latest = useRef({ selected, selector });
  latest.current = { selected, selector };
  useLayoutEffect(() => {
    const rerenderIfChanged = (): void => {
      if (!Object.is(latest.current.selector(store.get()), latest.current.selected)) rerender(undefined as never);
    };
    rerenderIfChanged(); // changes between rendering and subscribing
    return store.subscribe(rerenderIfChanged);
  }, [store]);
  return selected;
}

/** Returns a function that caches its last result, because most changes of the state leave its arguments the same. */
function memoizeLast<Arguments extends unknown[], Value>(compute: (...values: Arguments) => Value): (...values: Arguments) => Value {
  let cached: { values: Arguments; value: Value } | null = null;
  return (...values) => {
    if (!cached || cached.values.some((value, index) => !Object.is(value, values[index]))) cached = { values, value: compute(...values) };
    return cached.value;
  };
}

// ---- state

export type Connection = "connecting" | "live" | "offline";
export type Theme = "system" | "light" | "dark";
export type Tab = "node" | "files" | "activity";
type Dialog = "help" | null;

export interface AppState {
  route: Route;
  connection: Connection;
  sessions: SessionSummary[] | null;
  /** Files in the data directory that the viewer cannot read. */
  problems: Problem[];
  /** Data directory of the viewer; empty until loaded. */
  dataDir: string;
  /** Default data directory; empty until loaded. */
  defaultDataDir: string;
  map: Mindmap | null;
  /** Error of the last request for the map or the sessions; null if it succeeded. */
  failure: ApiError | null;
  /** Ids of the nodes that are collapsed in the map. */
  collapsed: ReadonlySet<string>;
  /** True after the user collapsed or expanded a node of the map. The page then no longer chooses what is collapsed. */
  isCollapsedByUser: boolean;
  /** Nodes that were added or changed in the last seconds. */
  recentChanges: NodeChanges;
  /** Nodes added or changed while the tab was hidden, was reloaded or showed another map. A node is removed when selected. */
  unseen: NodeChanges;
  /**
   * Start of the period of `unseen`, as an ISO timestamp: the time at which the tab was hidden or, after a reload or another
   * map, the value that `lastUpdate` had before.
   */
  unseenSince: string;
  /** `updatedAt` of the newest version of this map that the tab has shown; empty if none. It survives a reload. */
  lastUpdate: string;
  /** Ids of open questions that the user does not want to see above the map. */
  dismissedQuestions: ReadonlySet<string>;
  /** Id of the node under the pointer. */
  hovered: string | null;
  /** Path of the selected file; the nodes without it are faded. */
  file: string | null;
  /** Text of the search field. */
  search: string;
  /** Types that are chosen in the filter menu. */
  types: ReadonlySet<string>;
  /** Statuses that are chosen in the filter menu. */
  statuses: ReadonlySet<string>;
  showOnlyMatches: boolean;
  /** Index of the shown entry of the activity log, 0 the newest; null if none is shown. */
  logIndex: number | null;
  /** True if the page selects what the agent changes. */
  isFollowing: boolean;
  tab: Tab;
  isPanelOpen: boolean;
  dialog: Dialog;
  theme: Theme;
  notice: { text: string; isError: boolean } | null;
  isSyncing: boolean;
  /** True in a narrow window, which at first shows one pane and no side panel. */
  isNarrow: boolean;
  isPhone: boolean;
  /** What a phone shows. */
  phoneTab: "outline" | "map";
  /** Rows that are collapsed in the outline; null until the outline is shown. */
  collapsedRows: ReadonlySet<string> | null;
  /** Selected node when the outline last scrolled; null if none was selected; undefined before the outline is shown. */
  lastScrolledNode: string | null | undefined;
}

/** State of a map that is not loaded yet. */
export const INITIAL_MAP_STATE = {
  map: null,
  failure: null,
  recentChanges: new Map(),
  file: null,
  search: "",
  types: new Set<string>(),
  statuses: new Set<string>(),
  showOnlyMatches: false,
  logIndex: null,
  collapsedRows: null,
  lastScrolledNode: undefined,
} satisfies Partial<AppState>;

export const app = new Store<AppState>({
  ...INITIAL_MAP_STATE,
  route: { map: null, node: null, view: null },
  connection: "connecting",
  sessions: null,
  problems: [],
  dataDir: "",
  defaultDataDir: "",
  collapsed: new Set(),
  isCollapsedByUser: false,
  unseen: new Map(),
  unseenSince: "",
  lastUpdate: "",
  dismissedQuestions: new Set(),
  hovered: null,
  isFollowing: false,
  tab: "node",
  isPanelOpen: true,
  dialog: null,
  theme: "system",
  notice: null,
  isSyncing: false,
  isNarrow: false,
  isPhone: false,
  phoneTab: "outline",
});

// ---- values that are computed from the state

export const getRelations: (map: Mindmap) => Relations = memoizeByObject(buildRelations);
export const getModelNodeIds: (map: Mindmap) => ReadonlySet<string> = memoizeByObject(findModelNodeIds);
export const getCrossLinks: (map: Mindmap) => Link[] = memoizeByObject((map) => findCrossLinks(map, getModelNodeIds(map)));

/** Returns the route's view. Default: plan and mental model side by side; the whole map if there is no model or little room. */
export function getCurrentView({ route, map, isNarrow }: AppState): View {
  return route.view ?? (map && getModelNodeIds(map).size && !isNarrow ? "both" : "map");
}

/** Checks whether the outline stands in place of the map. */
export const isOutlineShown = ({ isPhone, phoneTab }: AppState): boolean => isPhone && phoneTab === "outline";

/** Returns the nodes that are collapsed in the outline or in the map, whichever is shown. */
export const getCollapsed = (state: AppState): ReadonlySet<string> => (isOutlineShown(state) ? (state.collapsedRows ?? new Set()) : state.collapsed);

/** Returns the ids of the nodes that match search and filters; null if neither is set. */
export const getMatches = (state: AppState): ReadonlySet<string> | null =>
  findMatches(state.map, state.search, state.types, state.statuses);

const findMatches = memoizeLast((map: Mindmap | null, queryText: string, types: ReadonlySet<string>, statuses: ReadonlySet<string>) => {
  const query = parseQuery(queryText, types, statuses);
  return map && !isEmptyQuery(query) ? new Set(findNodes(map, query)) : null;
});

export interface HighlightedNodes {
  /** Nodes that are related to the selected or hovered node, have the selected file, or are mentioned by the log entry. */
  nodes: ReadonlySet<string>;
  /** True if all other nodes are faded. */
  isExclusive: boolean;
}

/**
 * Returns the nodes to highlight. The log entry takes precedence over the file, the hovered node and the selected node,
 * in this order.
 */
export const getHighlightedNodes = (state: AppState): HighlightedNodes => findHighlightedNodes(state.map, state.logIndex, state.file, state.hovered ?? state.route.node);

const findHighlightedNodes = memoizeLast((map: Mindmap | null, logIndex: number | null, file: string | null, node: string | null): HighlightedNodes => {
  if (!map) return { nodes: new Set(), isExclusive: false };
  const relations = getRelations(map);
  const entry = logIndex === null ? undefined : map.activityLog[logIndex];
  if (entry) return { nodes: findMentions(map, relations, entry), isExclusive: false };
  if (file !== null) return { nodes: findNodesWithFile(relations, file), isExclusive: true };
  return { nodes: node ? findRelated(map, relations, node) : new Set(), isExclusive: false };
});
