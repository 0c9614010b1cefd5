import assert from "node:assert/strict";
import { beforeEach } from "node:test";
import type { MapNode, Mindmap } from "../src/api/types";
import type { Size } from "../src/layout/layout";
import type { Scene } from "../src/render/scene";
import { readRoute, refresh } from "../src/state/actions";
import { app } from "../src/state/app";
import { panes } from "../src/state/panes";
import { watchTabState } from "../src/state/storage";
import { createMap } from "./maps";

// Page of a map without a browser. Before each test it is opened in a new tab.

// The parts of a browser that the state uses. The history is a list of addresses with their states.
export const location = { hash: "" };
export const visited: { hash: string; state: unknown }[] = [];
export const history = {
  get state() {
    return visited.at(-1)!.state;
  },
  pushState: (state: unknown, _title: string, hash: string) => (visited.push({ hash, state }), (location.hash = hash)),
  replaceState: (state: unknown, _title: string, hash: string) => (visited.splice(-1, 1, { hash, state }), (location.hash = hash)),
  back: () => (visited.pop(), (location.hash = visited.at(-1)!.hash), readRoute()),
};
class Source extends EventTarget {
  onmessage?: (event: { data: string }) => void;
  close = (): void => undefined;
}
export let source: Source;
Object.assign(globalThis, {
  window: Object.assign(new EventTarget(), { setTimeout: (run: () => void, milliseconds: number) => void setTimeout(run, milliseconds).unref(), clearTimeout }),
  location,
  history,
  document: Object.assign(new EventTarget(), { hidden: false, createElement: () => ({ getContext: () => ({ measureText: (text: string) => ({ width: text.length * 7 }) }) }) }),
  EventSource: class extends Source {
    constructor() {
      super();
      source = this;
    }
  },
});
Object.defineProperty(globalThis, "navigator", { value: {} });
const stored = new Map<string, string>();
for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(globalThis, name, { value: { getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => stored.set(key, value) } });
watchTabState();

const initialState = app.get();
export const WIDE: Size = { width: 800, height: 800 };
// One column of few cards.
export const NARROW: Size = { width: 300, height: 200 };

/** Pane whose scene only has a size; `reads` counts how often it was asked for it. */
export function addPane(part: string, size: Size, isFollowing = true): { reads: number; size: Size } {
  const pane = { reads: 0, size };
  const scene = {
    isFollowing,
    get availableSize() {
      pane.reads++;
      return pane.size;
    },
    layout: null,
    onResize: () => true,
    skipAnimation: () => undefined,
    anchorTo: () => undefined,
  };
  panes.set(part, { scene: scene as unknown as Scene, tree: null!, layOutAgain: () => undefined, repaint: () => undefined });
  return pane;
}

/** Map with branches of tasks and of components, four nodes in each. */
export function createMapWithBranches(updatedAt = "1"): Mindmap {
  const nodes: Record<string, Partial<MapNode> & { parentId?: string }> = {};
  for (const [type, names] of [["task", ["p1", "p2"]], ["component", ["m1", "m2"]]] as const) {
    for (const name of names) {
      nodes[name] = { type };
      for (const letter of "abcd") nodes[`${name}${letter}`] = { type, parentId: name };
    }
  }
  return createMap(nodes, { updatedAt });
}

/** Starts a server that answers with this map. */
export const serve = (map: Mindmap): void => answerWith(() => Promise.resolve(new Response(JSON.stringify(map))));

export const answerWith = (fetch: (path: string) => Promise<Response>): void => void Object.assign(globalThis, { fetch });

/** Waits for the running reload of the map. */
export const untilLoaded = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Reloads the open map from a server that answers with this one. */
export async function receive(map: Mindmap): Promise<void> {
  serve(map);
  await refresh();
}

export const listCollapsed = (): string[] => [...app.get().collapsed].sort();

beforeEach(async () => {
  await openPage();
});

/** Opens the page of a map in a new tab, or if `isReload`, again in the same tab. */
export async function openPage(isReload = false, map = createMapWithBranches()): Promise<void> {
  if (!isReload) stored.clear();
  app.set(initialState);
  panes.clear();
  location.hash = "#/map/mm_1";
  visited.splice(0, visited.length, { hash: location.hash, state: null });
  serve(map);
  readRoute();
  await untilLoaded();
  assert.equal(app.get().map?.id, "mm_1");
}

/** Hides or shows the tab. */
export function setHidden(hidden: boolean): void {
  Object.assign(document, { hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
