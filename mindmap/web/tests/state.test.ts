import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { MapNode, Mindmap } from "../src/api/types";
import type { Size } from "../src/layout/layout";
import type { Scene } from "../src/render/scene";
import { addComment, answerQuestion, collapseAll, dismissQuestion, expandAll, readRoute, refresh, select, showNextUnseen, stepThroughLog, toggleCollapsed, watchServer } from "../src/state/actions";
import { app, getCollapsed, getHighlightedNodes } from "../src/state/app";
import { collapseToFit, resizePanes } from "../src/state/drawings";
import { panes } from "../src/state/panes";
import { loadTabState, loadTheme, watchTabState } from "../src/state/storage";
import { navigateTree } from "../src/state/treeNavigation";
import { createMap } from "./maps";

// The parts of a browser that the state uses. The history is a list of addresses with their states.
const location = { hash: "" };
const visited: { hash: string; state: unknown }[] = [];
const history = {
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
let source: Source;
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

/** Starts a server that answers with this map. */
const serve = (map: Mindmap): void => answerWith(() => Promise.resolve(new Response(JSON.stringify(map))));

const answerWith = (fetch: (path: string) => Promise<Response>): void => void Object.assign(globalThis, { fetch });

/** Waits for the running reload of the map. */
const untilLoaded = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Reloads the open map from a server that answers with this one. */
async function receive(map: Mindmap): Promise<void> {
  serve(map);
  await refresh();
}

const listCollapsed = (): string[] => [...app.get().collapsed].sort();

beforeEach(async () => {
  await openPage();
});

/** Opens the page of a map in a new tab, or if `isReload`, again in the same tab. */
async function openPage(isReload = false, map = createMapWithBranches()): Promise<void> {
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

/** Hides or shows the tab. */
function setHidden(hidden: boolean): void {
  Object.assign(document, { hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}

test("nodes that changed while the tab was hidden are marked until they are selected", async () => {
  const complete = (updatedAt: string, ...ids: string[]): Mindmap => {
    const map = createMapWithBranches(updatedAt);
    for (const id of ids) map.nodes[id]!.status = "completed";
    return map;
  };
  const listUnseen = (): string[] => [...app.get().unseen].map(([id, kind]) => `${id} ${kind}`);
  watchServer();
  await receive(complete("2", "p1a"));
  assert.deepEqual(listUnseen(), []);
  setHidden(true);
  setHidden(false);
  await receive(complete("3", "p1a", "p1b"));
  assert.deepEqual(listUnseen(), []);
  setHidden(true);
  source.onmessage!({ data: JSON.stringify({ type: "mindmap_updated", id: "mm_1" }) });
  const added = complete("4", "p1a", "p1b", "p2a");
  added.nodes["p2"]!.children.push("p2e");
  added.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [] };
  serve(added);
  setHidden(false);
  await untilLoaded();
  assert.deepEqual(listUnseen(), ["p2a changed", "p2e added"]);
  showNextUnseen();
  assert.deepEqual([app.get().route.node, listUnseen()], ["p2a", ["p2e added"]]);
  await receive(complete("5", "p1a", "p1b", "p2a"));
  assert.deepEqual(listUnseen(), []); // the other was deleted
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

test("a map that is opened has no marks of nodes that were deleted since", async () => {
  app.set({ map: null, unseen: new Map([["p1a", "changed"], ["gone", "added"]]), lookedAt: "2026-01-01T12:00:00Z" });
  await receive(createMapWithBranches("2"));
  assert.deepEqual([...app.get().unseen], [["p1a", "changed"]]);
});

test("a hidden tab notifies of each new question once, and a click on it opens its node", async () => {
  const shown: { title: string; onclick?: () => void }[] = [];
  class FakeNotification {
    static permission = "granted";
    onclick?: () => void;
    constructor(readonly title: string) {
      shown.push(this);
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
    source.onmessage!({ data: JSON.stringify({ type: "mindmap_updated", id: "mm_1" }) });
    await untilLoaded();
  }
  assert.deepEqual(shown.map(({ title }) => title), ["An agent asks about p2a"]);
  shown[0]!.onclick!(); // before the page has loaded the node's question
  assert.equal(app.get().route.node, "p2a");
  setHidden(false);
  await untilLoaded();
  location.hash = "#/map/mm_2";
  readRoute();
  await untilLoaded();
  shown[0]!.onclick!();
  await untilLoaded();
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

test("marks of unseen nodes and dismissed questions survive a reload, and are those of their map", async () => {
  app.set({ unseen: new Map([["p1a", "changed"]]), lookedAt: "2026-01-01T12:00:00Z" });
  dismissQuestion("q1");
  const getTabState = (): unknown[] => [[...app.get().unseen], app.get().lookedAt, [...app.get().dismissedQuestions]];
  const expected = [[["p1a", "changed"]], "2026-01-01T12:00:00Z", ["q1"]];
  await openPage(true);
  assert.deepEqual(getTabState(), expected);
  location.hash = "#/map/mm_2";
  readRoute();
  assert.deepEqual(getTabState(), [[], "", []]);
  await untilLoaded();
  await openPage(true);
  assert.deepEqual(getTabState(), expected);
  select("p1a");
  await openPage(true);
  assert.deepEqual(getTabState()[0], []);
});

test("text in a storage that is no theme or no JSON is ignored", () => {
  localStorage.setItem("mindmap-theme", "blue");
  assert.equal(loadTheme(), "system");
  localStorage.setItem("mindmap-theme", "dark");
  assert.equal(loadTheme(), "dark");
  sessionStorage.setItem("mindmap-tab mm_9", "{");
  assert.equal(loadTabState("mm_9").unseen.size, 0);
});

test("nodes that changed while the page was reloaded are marked, and those of a new tab are not", async () => {
  await receive(createMapWithBranches("2026-01-02"));
  const log = [{ timestamp: "2026-01-04", message: "Added 'p2e' under 'p2'", nodeId: "p2e" }];
  const map = { ...createMapWithBranches("2026-01-04"), activityLog: log };
  map.nodes["p1a"]!.updatedAt = "2026-01-02";
  map.nodes["p1b"]!.updatedAt = "2026-01-03";
  map.nodes["p1c"]!.questions = [{ id: "q", text: "Which?", askedAt: "2026-01-03" }];
  map.nodes["p2"]!.children.push("p2e");
  map.nodes["p2e"] = { id: "p2e", label: "p2e", type: "task", parent: "p2", children: [], updatedAt: "2026-01-04" };
  await openPage(true, map);
  const { unseen, lookedAt } = app.get();
  assert.deepEqual([[...unseen], lookedAt], [[["p1b", "changed"], ["p1c", "changed"], ["p2e", "added"]], "2026-01-02"]);
  select("p1b");
  await openPage(true, map);
  assert.deepEqual([...app.get().unseen.keys()], ["p1c", "p2e"]);
  await openPage(false, map);
  assert.equal(app.get().unseen.size, 0);
});

test("a viewer that stops before or during its answer is offline, and a fault of the page is thrown", async () => {
  const body = (): ReadableStream => new ReadableStream({ start: (controller) => controller.error(new TypeError("network error")) });
  for (const fetch of [() => Promise.reject(new TypeError("Failed to fetch")), () => Promise.resolve(new Response(body()))]) {
    app.set({ failure: null });
    answerWith(fetch);
    await refresh();
    assert.equal(app.get().failure?.status, 0);
  }
  answerWith(() => Promise.reject(new RangeError("a fault")));
  await assert.rejects(refresh(), RangeError);
});

test("the page of a deleted map offers the others, but a fault while it loads them is thrown", async () => {
  const missing = (): Promise<Response> => Promise.resolve(new Response(JSON.stringify({ error: { code: "no_such_mindmap", message: "Map not found.", hint: "" } }), { status: 404 }));
  answerWith((path) => (path === "/api/mindmaps" ? Promise.reject(new TypeError("Failed to fetch")) : missing()));
  await refresh();
  assert.deepEqual([app.get().failure?.message, app.get().sessions], ["Map not found.", null]);
  answerWith((path) => (path === "/api/mindmaps" ? Promise.reject(new RangeError("a fault")) : missing()));
  await assert.rejects(refresh(), RangeError);
});

test("an answer is sent to the server, whose map is shown, and an error is told", async () => {
  const requests: string[] = [];
  const answered = createMapWithBranches("2");
  answered.nodes["p1a"]!.questions = [{ id: "q1", text: "Which?", askedAt: "1", answer: "This" }];
  const answer = (body: object, status: number): void => void Object.assign(globalThis, { fetch: (path: string, { body: sent }: { body: string }) => (requests.push(`${path} ${sent}`), Promise.resolve(new Response(JSON.stringify(body), { status }))) });
  answer({ mindmap: answered }, 200);
  assert.equal(await answerQuestion("q1", "This"), true);
  assert.equal(app.get().map!.nodes["p1a"]!.questions![0]!.answer, "This");
  answer({ error: { message: "The question has an answer.", hint: "Comment on it." } }, 409);
  assert.equal(await addComment("p1a", "Late"), false);
  assert.equal(app.get().notice!.text, "The question has an answer. Comment on it.");
  assert.deepEqual(requests, ['/api/answer {"mindmapId":"mm_1","questionId":"q1","answer":"This"}', '/api/comment {"mindmapId":"mm_1","nodeId":"p1a","text":"Late"}']);
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

test("Back steps through opened nodes, and over the nodes in between that keys selected", () => {
  addPane("map", WIDE);
  select("p1a");
  select("p2");
  select("p2");
  navigateTreeTo("p2a", "p2b");
  select("m1");
  const steps = [app.get().route.node];
  while (visited.length > 1) {
    history.back();
    steps.push(app.get().route.node);
  }
  assert.deepEqual(steps, ["m1", "p2b", "p2", "p1a", null]);
});

/** Selects nodes as the arrow keys do. */
function navigateTreeTo(...ids: string[]): void {
  for (const id of ids) select(id, { historyStep: "move" });
}

test("the address of a node shows it in the panel and expands its branch, in an open map too", () => {
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
