import assert from "node:assert/strict";
import { test } from "node:test";
import { readRoute, watchServer } from "../src/state/actions";
import { app } from "../src/state/app";
import { createMapWithBranches, eventSource, history, listCollapsed, location, receive, serve, setHidden, waitUntilLoaded } from "./page";

test("a hidden tab notifies of each new question once, and a click on it opens its node", async () => {
  const notifications: { title: string; onclick?: () => void }[] = [];
  class FakeNotification {
    static permission = "granted";
    onclick?: () => void;
    constructor(readonly title: string) {
      notifications.push(this);
    }
  }
  Object.assign(window, { Notification: FakeNotification, focus: () => undefined });
  Object.assign(globalThis, { Notification: FakeNotification });
  watchServer();
  const map = createMapWithBranches("2");
  map.nodes["p1a"]!.questions = [{ id: "q1", text: "Which?", askedAt: "1", client: "An agent" }];
  await receive(map);
  map.nodes["p2a"]!.questions = [{ id: "q2", text: "Where?", askedAt: "2" }];
  serve(map);
  setHidden(true);
  for (let count = 0; count < 2; count++) {
    eventSource.onmessage!({ data: JSON.stringify({ type: "mindmap_updated", id: "mm_1" }) });
    await waitUntilLoaded();
  }
  assert.deepEqual(notifications.map(({ title }) => title), ["An agent asks about p2a"]);
  notifications[0]!.onclick!(); // before the page has loaded the node's question
  assert.equal(app.get().route.node, "p2a");
  setHidden(false);
  await waitUntilLoaded();
  location.hash = "#/map/mm_2";
  readRoute();
  await waitUntilLoaded();
  notifications[0]!.onclick!();
  await waitUntilLoaded();
  assert.deepEqual([app.get().route, app.get().map?.id], [{ map: "mm_1", node: "p2a", view: null }, "mm_1"]);
});

test("a notification opens a node that is loaded after the click, with its ancestors expanded", async () => {
  app.set({ collapsed: new Set(["p1", "p2"]), isCollapsedByUser: true });
  history.pushState(null, "", "#/map/mm_1/node/p2e");
  readRoute();
  const map = createMapWithBranches("2");
  map.nodes["p2"]!.children.push("p2e");
  map.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [] };
  await receive(map);
  assert.deepEqual([app.get().route.node, listCollapsed()], ["p2e", ["p1"]]);
});
