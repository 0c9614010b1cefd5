import assert from "node:assert/strict";
import { test } from "node:test";
import type { Scene } from "../src/render/scene";
import { app } from "../src/state/app";
import { collapseToFit, panes, resizePanes } from "../src/state/panes";
import { addPane, createMapWithBranches, listCollapsed, NARROW, receive, WIDE } from "./page";

test("nodes that do not fit are collapsed, except in a pane whose view the user has moved, which stays unchanged", () => {
  addPane("plan", WIDE, false);
  const modelPane = addPane("model", WIDE);
  app.set({ collapsed: new Set(["p1", "m1", "m2"]) });
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["p1"]);
  modelPane.size = NARROW;
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
  panes.get("model")!.scene = { ...panes.get("model")!.scene, isFollowing: false } as Scene;
  modelPane.size = WIDE;
  collapseToFit([], false);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
});

test("after a resize of the window, all panes collapse nodes that do not fit, and each pane is measured only once", () => {
  const resizedPanes = [addPane("plan", NARROW), addPane("model", NARROW)];
  resizePanes();
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1", "p2"]);
  assert.deepEqual(resizedPanes.map(({ measurementCount }) => measurementCount), [1, 1]);
});

test("the ancestors of a changed node stay collapsed, and those of an added node are expanded", async () => {
  addPane("plan", NARROW);
  collapseToFit([], false);
  const map = createMapWithBranches("2");
  Object.assign(map.nodes["p1a"]!, { status: "completed" });
  map.nodes["p2"]!.children.push("p2e");
  map.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [] };
  await receive(map);
  assert.deepEqual(listCollapsed(), ["m1", "m2", "p1"]);
});

test("the nodes to collapse are chosen again when a node has moved, but not when only a label has changed", async () => {
  addPane("plan", WIDE);
  app.set({ collapsed: new Set(["p1", "p2"]) });
  const mapWithNewLabel = createMapWithBranches("2");
  mapWithNewLabel.nodes["p1"]!.label = "Another";
  await receive(mapWithNewLabel);
  assert.deepEqual(listCollapsed(), ["p1", "p2"]);
  const mapWithMovedNode = createMapWithBranches("3");
  mapWithMovedNode.nodes["p1"]!.children.pop();
  mapWithMovedNode.nodes["p1d"]!.parent = "p2";
  mapWithMovedNode.nodes["p2"]!.children.push("p1d");
  await receive(mapWithMovedNode);
  assert.deepEqual(listCollapsed().filter((id) => id.startsWith("p")), []);
});
