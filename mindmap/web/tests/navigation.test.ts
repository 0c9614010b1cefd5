import assert from "node:assert/strict";
import { test } from "node:test";
import { collapseAll, expandAll, readRoute, select, stepThroughLog, toggleCollapsed } from "../src/state/actions";
import { app, getCollapsed, getHighlightedNodes } from "../src/state/app";
import { navigateTree } from "../src/state/keys";
import { addPane, createMapWithBranches, history, historyEntries, receive, WIDE } from "./page";

test("in the outline, keys collapse and select rows; what is collapsed in the map stays as it is", () => {
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

test("Back steps through opened nodes; of nodes that keys selected in a row, only the last is a step", () => {
  addPane("map", WIDE);
  select("p1a");
  select("p2");
  select("p2");
  navigateTreeTo("p2a", "p2b");
  select("m1");
  const shownNodes = [app.get().route.node];
  while (historyEntries.length > 1) {
    history.back();
    shownNodes.push(app.get().route.node);
  }
  assert.deepEqual(shownNodes, ["m1", "p2b", "p2", "p1a", null]);
});

test("the address of a node in the open map shows the node in the panel and expands its ancestors", () => {
  app.set({ tab: "files", isPanelOpen: false, collapsed: new Set(["p2"]) });
  history.pushState(null, "", "#/map/mm_1/node/p2c");
  readRoute();
  const { tab, isPanelOpen, collapsed, route } = app.get();
  assert.deepEqual([tab, isPanelOpen, collapsed.size, route.node], ["node", true, 0, "p2c"]);
});

test("a step through the log selects what its entry mentions, shows it in the panel and fades nothing", async () => {
  const log = [{ timestamp: "3", message: "Nothing of the map" }, { timestamp: "2", message: "About it", nodeId: "m2b" }, { timestamp: "1", message: "Created 'A map'" }];
  await receive({ ...createMapWithBranches("2"), activityLog: log });
  app.set({ tab: "files" });
  stepThroughLog(1);
  assert.deepEqual([app.get().logIndex, app.get().route.node, app.get().tab], [0, null, "files"]);
  stepThroughLog(1);
  assert.deepEqual([app.get().logIndex, app.get().route.node, app.get().tab], [1, "m2b", "node"]);
  assert.deepEqual(getHighlightedNodes(app.get()), { nodes: new Set(["m2b"]), isExclusive: false });
  stepThroughLog(5);
  assert.equal(app.get().logIndex, 2);
  select("p1");
  assert.equal(app.get().logIndex, null);
  stepThroughLog(-1);
  assert.equal(app.get().logIndex, null);
  for (const step of [1, -1]) stepThroughLog(step);
  assert.equal(app.get().logIndex, null);
});

/** Selects nodes as the arrow keys do. */
function navigateTreeTo(...ids: string[]): void {
  for (const id of ids) select(id, { historyStep: "move" });
}
