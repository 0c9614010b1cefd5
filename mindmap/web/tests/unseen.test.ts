import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mindmap } from "../src/api/types";
import { dismissQuestion, readRoute, select, showNextUnseen, watchServer } from "../src/state/actions";
import { app } from "../src/state/app";
import { loadTabState, loadTheme } from "../src/state/storage";
import { createMapWithBranches, eventSource, location, openPage, receive, serve, setHidden, waitUntilLoaded } from "./page";

test("nodes that changed while the tab was hidden are marked until they are selected", async () => {
  const createMapWithCompleted = (updatedAt: string, ...ids: string[]): Mindmap => {
    const map = createMapWithBranches(updatedAt);
    for (const id of ids) map.nodes[id]!.status = "completed";
    return map;
  };
  const listUnseen = (): string[] => [...app.get().unseen].map(([id, kind]) => `${id} ${kind}`);
  watchServer();
  await receive(createMapWithCompleted("2", "p1a"));
  assert.deepEqual(listUnseen(), []);
  setHidden(true);
  setHidden(false);
  await receive(createMapWithCompleted("3", "p1a", "p1b"));
  assert.deepEqual(listUnseen(), []);
  setHidden(true);
  eventSource.onmessage!({ data: JSON.stringify({ type: "mindmap_updated", id: "mm_1" }) });
  const mapWithNewNode = createMapWithCompleted("4", "p1a", "p1b", "p2a");
  mapWithNewNode.nodes["p2"]!.children.push("p2e");
  mapWithNewNode.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [] };
  serve(mapWithNewNode);
  setHidden(false);
  await waitUntilLoaded();
  assert.deepEqual(listUnseen(), ["p2a changed", "p2e added"]);
  showNextUnseen();
  assert.deepEqual([app.get().route.node, listUnseen()], ["p2a", ["p2e added"]]);
  await receive(createMapWithCompleted("5", "p1a", "p1b", "p2a"));
  assert.deepEqual(listUnseen(), []); // the new version of the map has no p2e
  showNextUnseen();
  assert.equal(app.get().route.node, "p2a");
});

test("a map without changed nodes leaves marks and highlights as they are", async () => {
  app.set({ unseen: new Map([["p1a", "changed"]]) });
  const { unseen, recentChanges } = app.get();
  await receive(createMapWithBranches("2"));
  assert.equal(app.get().map!.updatedAt, "2");
  assert.ok(app.get().unseen === unseen && app.get().recentChanges === recentChanges);
});

test("a map that is opened again has no marks of nodes that were deleted meanwhile", async () => {
  app.set({ map: null, unseen: new Map([["p1a", "changed"], ["gone", "added"]]), unseenSince: "2026-01-01T12:00:00Z" });
  await receive(createMapWithBranches("2"));
  assert.deepEqual([...app.get().unseen], [["p1a", "changed"]]);
});

test("marks of unseen nodes and dismissed questions survive a reload, and each map has its own", async () => {
  app.set({ unseen: new Map([["p1a", "changed"]]), unseenSince: "2026-01-01T12:00:00Z" });
  dismissQuestion("q1");
  const getTabState = (): unknown[] => [[...app.get().unseen], app.get().unseenSince, [...app.get().dismissedQuestions]];
  const expected = [[["p1a", "changed"]], "2026-01-01T12:00:00Z", ["q1"]];
  await openPage(true);
  assert.deepEqual(getTabState(), expected);
  location.hash = "#/map/mm_2";
  readRoute();
  assert.deepEqual(getTabState(), [[], "", []]);
  await waitUntilLoaded();
  await openPage(true);
  assert.deepEqual(getTabState(), expected);
  select("p1a");
  await openPage(true);
  assert.deepEqual(getTabState()[0], []);
});

test("nodes that changed while the page was reloaded are marked, but a new tab marks no nodes", async () => {
  await receive(createMapWithBranches("2026-01-02"));
  const log = [{ timestamp: "2026-01-04", message: "Added 'p2e' under 'p2'", nodeId: "p2e" }];
  const map = { ...createMapWithBranches("2026-01-04"), activityLog: log };
  map.nodes["p1a"]!.updatedAt = "2026-01-02";
  map.nodes["p1b"]!.updatedAt = "2026-01-03";
  map.nodes["p1c"]!.questions = [{ id: "q", text: "Which?", askedAt: "2026-01-03" }];
  map.nodes["p2"]!.children.push("p2e");
  map.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [], updatedAt: "2026-01-04" };
  await openPage(true, map);
  const { unseen, unseenSince } = app.get();
  assert.deepEqual([[...unseen], unseenSince], [[["p1b", "changed"], ["p1c", "changed"], ["p2e", "added"]], "2026-01-02"]);
  select("p1b");
  await openPage(true, map);
  assert.deepEqual([...app.get().unseen.keys()], ["p1c", "p2e"]);
  await openPage(false, map);
  assert.equal(app.get().unseen.size, 0);
});

test("stored text that is no theme, or no JSON of a tab's state, is ignored", () => {
  localStorage.setItem("mindmap-theme", "blue");
  assert.equal(loadTheme(), "system");
  localStorage.setItem("mindmap-theme", "dark");
  assert.equal(loadTheme(), "dark");
  sessionStorage.setItem("mindmap-tab mm_9", "{");
  assert.equal(loadTabState("mm_9").unseen.size, 0);
});
