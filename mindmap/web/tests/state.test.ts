import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { MapNode, Mindmap } from "../src/api/types";
import type { Size } from "../src/layout/layout";
import type { Scene } from "../src/render/scene";
import { collapseAll, expandAll, readRoute, refresh, select, toggleCollapsed } from "../src/state/actions";
import { app, getCollapsed } from "../src/state/app";
import { collapseToFit, resizePanes } from "../src/state/drawings";
import { panes } from "../src/state/panes";
import { navigateTree } from "../src/state/treeNavigation";
import { createMap } from "./maps";

// The parts of a browser that the state uses.
const location = { hash: "" };
Object.assign(globalThis, {
  window: { setTimeout: (run: () => void, milliseconds: number) => void setTimeout(run, milliseconds).unref(), clearTimeout },
  location,
  history: { replaceState: (_state: unknown, _title: string, hash: string) => (location.hash = hash) },
  document: { createElement: () => ({ getContext: () => ({ measureText: (text: string) => ({ width: text.length * 7 }) }) }) },
});

const initialState = app.get();
const WIDE: Size = { width: 800, height: 800 };
// One column of few cards.
const NARROW: Size = { width: 300, height: 200 };

/** Pane whose scene only has a size; `reads` counts how often it was asked for it. */
function addPane(part: string, size: Size, isFollowing = true): { reads: number; size: Size } {
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
function createMapWithBranches(updatedAt = "1"): Mindmap {
  const nodes: Record<string, Partial<MapNode> & { parentId?: string }> = {};
  for (const [type, names] of [["task", ["p1", "p2"]], ["component", ["m1", "m2"]]] as const) {
    for (const name of names) {
      nodes[name] = { type };
      for (const letter of "abcd") nodes[`${name}${letter}`] = { type, parentId: name };
    }
  }
  return createMap(nodes, { updatedAt });
}

/** Reloads the open map from a server that answers with this one. */
async function receive(map: Mindmap): Promise<void> {
  Object.assign(globalThis, { fetch: () => Promise.resolve(new Response(JSON.stringify(map))) });
  await refresh();
}

const listCollapsed = (): string[] => [...app.get().collapsed].sort();

beforeEach(async () => {
  app.set(initialState);
  panes.clear();
  location.hash = "#/map/mm_1";
  Object.assign(globalThis, { fetch: () => Promise.resolve(new Response(JSON.stringify(createMapWithBranches()))) });
  readRoute();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(app.get().map?.id, "mm_1");
});

test("panes that the user has moved keep what is collapsed, and the others fit", () => {
  addPane("plan", WIDE, false);
  const model = addPane("model", WIDE);
  app.set({ collapsed: new Set(["p1", "m1", "m2"]) });
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["p1"]);
  model.size = NARROW;
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
  panes.get("model")!.scene = { ...panes.get("model")!.scene, isFollowing: false } as Scene;
  model.size = WIDE;
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
});

test("a resized window fits all panes at once", () => {
  const resized = [addPane("plan", NARROW), addPane("model", NARROW)];
  resizePanes();
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1", "p2"]);
  assert.deepEqual(resized.map(({ reads }) => reads), [1, 1]);
});

test("a changed node stays collapsed, and an added one is expanded", async () => {
  addPane("plan", NARROW);
  collapseToFit([], false);
  const map = createMapWithBranches("2");
  Object.assign(map.nodes["p1a"]!, { status: "completed" });
  map.nodes["p2"]!.children.push("p2e");
  map.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [] };
  await receive(map);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
});

test("a map fits its panes again when its nodes change but not their number", async () => {
  addPane("plan", WIDE);
  app.set({ collapsed: new Set(["p1", "p2"]) });
  const relabelled = createMapWithBranches("2");
  relabelled.nodes["p1"]!.label = "Another";
  await receive(relabelled);
  assert.deepEqual(listCollapsed(), ["p1", "p2"]);
  const moved = createMapWithBranches("3");
  moved.nodes["p1"]!.children.pop();
  moved.nodes["p1d"]!.parent = "p2";
  moved.nodes["p2"]!.children.push("p1d");
  await receive(moved);
  assert.deepEqual(listCollapsed().filter((id) => id.startsWith("p")), []);
});

test("in the outline, keys collapse and select its rows, and the map stays as it is", () => {
  app.set({ isPhone: true, isNarrow: true, collapsed: new Set(["m1"]), collapsedRows: new Set(["p2"]) });
  const { collapsed } = app.get();
  const press = (...keys: string[]): string | null => (keys.forEach(navigateTree), app.get().route.node);
  assert.equal(press("ArrowDown"), "p1");
  assert.equal(press("End", "Home", "ArrowDown"), "p1a");
  assert.equal(press("ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowRight"), "m1a");
  assert.equal(press("ArrowUp", "ArrowUp"), "p2");
  assert.deepEqual([...getCollapsed(app.get())].sort(), ["p1", "p2"]);
  assert.equal(press("ArrowRight", "ArrowRight"), "p2a");
  toggleCollapsed("m2");
  assert.deepEqual([...getCollapsed(app.get())].sort(), ["m2", "p1"]);
  collapseAll();
  assert.equal(getCollapsed(app.get()).size, 4);
  expandAll();
  assert.equal(getCollapsed(app.get()).size, 0);
  select("m1a");
  assert.equal(app.get().isCollapsedByUser, false);
  app.set({ phoneTab: "map", collapsed });
  assert.deepEqual([...getCollapsed(app.get())], ["m1"]);
});
