import assert from "node:assert/strict";
import { beforeEach } from "node:test";
import type { MapNode, Mindmap } from "../src/api/types";
import type { Size } from "../src/layout/geometry";
import type { Scene } from "../src/render/scene";
import { readRoute, refresh } from "../src/state/actions";
import { app } from "../src/state/app";
import { panes } from "../src/state/panes";
import { watchTabState } from "../src/state/storage";
import { createMap } from "./maps";

// The page of a map, without a browser. Before each test the page is opened in a new tab.

// Replacements for the parts of a browser that the page's state uses.
export const location = { hash: "" };
/** Entries of the browser's history: addresses with their states, oldest first. */
export const historyEntries: { hash: string; state: unknown }[] = [];
export const history = {
  get state() {
    return historyEntries.at(-1)!.state;
  },
  pushState: (state: unknown, _title: string, hash: string) => (historyEntries.push({ hash, state }), (location.hash = hash)),
  replaceState: (state: unknown, _title: string, hash: string) => (historyEntries.splice(-1, 1, { hash, state }), (location.hash = hash)),
  back: () => (historyEntries.pop(), (location.hash = historyEntries.at(-1)!.hash), readRoute()),
};
class FakeEventSource extends EventTarget {
  onmessage?: (event: { data: string }) => void;
  close = (): void => undefined;
}
/** The event source that the page has opened last. */
export let eventSource: FakeEventSource;
Object.assign(globalThis, {
  window: Object.assign(new EventTarget(), { setTimeout: (run: () => void, milliseconds: number) => void setTimeout(run, milliseconds).unref(), clearTimeout }),
  location,
  history,
  document: Object.assign(new EventTarget(), { hidden: false, createElement: () => ({ getContext: () => ({ measureText: (text: string) => ({ width: text.length * 7 }) }) }) }),
  EventSource: class extends FakeEventSource {
    constructor() {
      super();
      eventSource = this;
    }
  },
});
Object.defineProperty(globalThis, "navigator", { value: {} });
const storedItems = new Map<string, string>();
for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(globalThis, name, { value: { getItem: (key: string) => storedItems.get(key) ?? null, setItem: (key: string, value: string) => storedItems.set(key, value) } });
watchTabState();

const initialState = app.get();
export const WIDE: Size = { width: 800, height: 800 };
// Has room for one column of few cards.
export const NARROW: Size = { width: 300, height: 200 };

/** Adds a pane with a minimal scene of a size. Returns its size, which may be changed, and how often the size was read. */
export function addPane(part: string, size: Size, isFollowing = true): { measurementCount: number; size: Size } {
  const pane = { measurementCount: 0, size };
  const scene = {
    isFollowing,
    get availableSize() {
      pane.measurementCount++;
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

/** Creates a map with two branches of tasks (`p1`, `p2`) and two of components (`m1`, `m2`), with four children each (`p1a`). */
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

/** Makes the server answer every request with this map. */
export const serve = (map: Mindmap): void => answerWith(() => Promise.resolve(new Response(JSON.stringify(map))));

/** Makes the page send its requests to this function. */
export const answerWith = (fetch: (path: string) => Promise<Response>): void => void Object.assign(globalThis, { fetch });

/** Waits until the running reload of the map has ended. */
export const waitUntilLoaded = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Reloads the open map; the server answers with this version of it. */
export async function receive(map: Mindmap): Promise<void> {
  serve(map);
  await refresh();
}

export const listCollapsed = (): string[] => [...app.get().collapsed].sort();

beforeEach(async () => {
  await openPage();
});

/** Opens the page of a map in a new tab; if `isReload`, again in the same tab. */
export async function openPage(isReload = false, map = createMapWithBranches()): Promise<void> {
  if (!isReload) storedItems.clear();
  app.set(initialState);
  panes.clear();
  location.hash = "#/map/mm_1";
  historyEntries.splice(0, historyEntries.length, { hash: location.hash, state: null });
  serve(map);
  readRoute();
  await waitUntilLoaded();
  assert.equal(app.get().map?.id, "mm_1");
}

/** Hides or shows the tab. */
export function setHidden(hidden: boolean): void {
  Object.assign(document, { hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
