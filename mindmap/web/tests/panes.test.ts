import assert from "node:assert/strict";
import { test } from "node:test";
import type { Scene } from "../src/render/scene";
import { app } from "../src/state/app";
import { collapseToFit, resizePanes } from "../src/state/drawings";
import { panes } from "../src/state/panes";
import { NARROW, WIDE, addPane, createMapWithBranches, listCollapsed, receive } from "./page";

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
