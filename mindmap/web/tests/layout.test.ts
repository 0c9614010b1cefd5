import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mindmap } from "../src/api/types";
import { buildAccessibleName, createCard, truncateText, wrapText } from "../src/layout/card";
import { type Box, type Size, intersects, uniteBoxes } from "../src/layout/geometry";
import { type Layout, computeScale, fitsAtOpeningScale, layOutMap } from "../src/layout/layout";
import { routeLinks } from "../src/layout/links";
import { Router } from "../src/layout/router";
import { type Branch, buildTree, walkTree } from "../src/model/tree";
import { formatRoute, parseRoute } from "../src/state/app";
import { type PartToFit, chooseCollapsedNodes, collapseTree } from "../src/state/collapse";
import { createMap, measureFixedWidth } from "./maps";

const fonts = { label: measureFixedWidth, bold: measureFixedWidth, small: measureFixedWidth };

/** Creates a map of plans `p0`, `p1` and so on; each has steps such as `p0s0`. */
function createMapWithPlans(planCount: number, stepCount: number): Mindmap {
  const nodes: Parameters<typeof createMap>[0] = {};
  for (let plan = 0; plan < planCount; plan++) {
    nodes[`p${plan}`] = { type: "plan" };
    for (let step = 0; step < stepCount; step++) nodes[`p${plan}s${step}`] = { parentId: `p${plan}`, label: `Step ${step} with some more words` };
  }
  return createMap(nodes);
}

const WINDOW: Size = { width: 1000, height: 700 };

function computeLayout(tree: Branch, window = WINDOW, previous?: Layout): Layout {
  const cards = [...walkTree(tree)].map(({ id, node, children }) => [id, createCard(node, undefined, 0, 0, children.length > 0, fonts)] as const);
  return layOutMap(tree, new Map(cards), window, previous);
}

test("lines break between words, long words are split, and truncated text ends with an ellipsis", () => {
  assert.deepEqual(wrapText("one two three", 70, 3, measureFixedWidth), ["one two", "three"]);
  assert.deepEqual(wrapText("abcdefghij", 40, 3, measureFixedWidth), ["abcd", "efgh", "ij"]);
  assert.deepEqual(wrapText("one two three four", 70, 2, measureFixedWidth), ["one two", "three…"]);
  assert.deepEqual(wrapText("", 70, 2, measureFixedWidth), []);
  assert.ok(truncateText("👩‍🚀 abc", 1, measureFixedWidth).endsWith("…"));
});

test("a card of a blocked task shows the reason below the label, and its accessible name contains the reason", () => {
  const { nodes } = createMap({ a: { label: "Load test", status: "blocked", reason: "no staging bucket yet, asked on Monday, and so on, and so on" }, b: { label: "Load test", status: "blocked" } });
  const [card, cardWithoutReason] = [nodes["a"]!, nodes["b"]!].map((node) => createCard(node, undefined, 0, 0, false, fonts));
  assert.deepEqual(card!.remark, ["no staging", "bucket yet, ask…"]);
  assert.deepEqual(cardWithoutReason!.remark, []);
  assert.ok(card!.height > cardWithoutReason!.height);
  assert.equal(buildAccessibleName(nodes["a"]!, card!), `Load test, Task, blocked: ${nodes["a"]!.reason}`);
});

test("a card shows an open question, but not an answered one", () => {
  const question = { id: "q", text: "Which proxy?", askedAt: "" };
  const { nodes } = createMap({ open: { questions: [question] }, answered: { questions: [{ ...question, answer: "nginx" }] } });
  const [open, answered] = [nodes["open"]!, nodes["answered"]!].map((node) => createCard(node, undefined, 0, 0, false, fonts));
  assert.deepEqual([open!.remark, answered!.remark], [["Asks you: Which", "proxy?"], []]);
  assert.equal(buildAccessibleName(nodes["open"]!, open!), "open, Task, planned, has a question for you");
});

test("no cards overlap, and all are within the bounds", () => {
  for (const map of [createMapWithPlans(0, 0), createMapWithPlans(1, 1), createMapWithPlans(3, 9), createMapWithPlans(40, 12)]) {
    const layout = computeLayout(buildTree(map));
    const cards = [...layout.cards.values()];
    assert.equal(cards.length, Object.keys(map.nodes).length);
    for (const [index, card] of cards.entries()) {
      assert.ok(card.x >= layout.bounds.x && card.y + card.height <= layout.bounds.y + layout.bounds.height + 0.001);
      for (const other of cards.slice(index + 1)) assert.ok(!intersects(card, other), `${card.branch.id} covers ${other.branch.id}`);
    }
  }
});

test("a large map has about the aspect ratio of its window", () => {
  for (const aspect of [0.6, 1, 2]) {
    const { bounds } = computeLayout(buildTree(createMapWithPlans(60, 10)), { width: 700 * aspect, height: 700 });
    assert.ok(Math.abs(Math.log(bounds.width / bounds.height / aspect)) < 0.4, `${bounds.width} x ${bounds.height}`);
  }
});

test("columns use the width of the window, even if the root has a single branch", () => {
  for (const [plans, steps] of [[12, 0], [1, 20]] as const) {
    const { bounds } = computeLayout(buildTree(createMapWithPlans(plans, steps)));
    assert.ok(bounds.width > WINDOW.width * 0.7 && computeScale(bounds, WINDOW) > 0.92, `${bounds.width} x ${bounds.height}`);
  }
});

test("a map with one more branch keeps its number of columns", () => {
  const before = computeLayout(buildTree(createMapWithPlans(30, 10)));
  assert.equal(computeLayout(buildTree(createMapWithPlans(31, 10)), WINDOW, before).columns, before.columns);
});

test("a second layout of an unchanged map is equal to the first, whatever the number of columns", () => {
  const columnCounts = new Set<number>();
  for (const width of [400, 700, 1000, 1600]) {
    for (let plans = 1; plans < 9; plans++) {
      const tree = buildTree(createMapWithPlans(plans, 4));
      const first = computeLayout(tree, { width, height: 700 });
      assert.deepEqual(computeLayout(tree, { width, height: 700 }, first).bounds, first.bounds, `${plans} plans, ${width} pixels`);
      columnCounts.add(first.columns);
    }
  }
  assert.ok(columnCounts.has(0) && columnCounts.has(3), [...columnCounts].join());
});

test("the time to find a route grows with its length, not with the size of the map", () => {
  const cards = Array.from({ length: 60 }, (_, index) => ({ x: 40 + 200 * (index % 2), y: 40 + 40 * (index >> 1), width: 120, height: 24 }));
  const measureTime = (size: number): number => {
    const router = new Router(cards, { x: 0, y: 0, width: size, height: size });
    const start = performance.now();
    for (let index = 0; index < cards.length; index += 2) assert.ok(router.findRoute(cards[index]!, cards[index + 1]!));
    return performance.now() - start;
  };
  const measureShortestTime = (size: number): number => Math.min(...Array.from({ length: 5 }, () => measureTime(size)));
  measureShortestTime(1_300); // the first run also compiles the code
  const [smallMapTime, largeMapTime] = [measureShortestTime(1_300), measureShortestTime(4_200)];
  assert.ok(largeMapTime < 4 * smallMapTime, `${smallMapTime} and ${largeMapTime} ms`);
});

test("a link to a collapsed node leads to the card that shows it, and links with equal ends share a route", () => {
  const links = [
    { id: "1", from: "b", to: "d", label: "x" },
    { id: "2", from: "c", to: "d", label: "y" },
    { id: "3", from: "b", to: "c", label: "hidden" },
    { id: "4", from: "d", to: "a", label: "", style: "dashed" },
  ];
  const map = createMap({ a: {}, b: { parentId: "a" }, c: { parentId: "a" }, d: {} }, { links });
  const { tree, hiddenCounts, visibleIdOf } = collapseTree(buildTree(map), new Set(["a"]));
  assert.equal(hiddenCounts.get("a"), 2);
  assert.equal(visibleIdOf.get("b"), "a");
  const routes = routeLinks(map.links, computeLayout(tree), visibleIdOf, measureFixedWidth).map(({ from, to, style, label }) => [from, to, style, label]);
  assert.deepEqual(routes, [["a", "d", "solid", "x +1"], ["d", "a", "dashed", ""]]);
});

/** Returns the whole map as the only part, which has to fit the window. */
const createPartsToFit = (map: Mindmap, window: Size): PartToFit[] => [
  { has: () => true, fits: (collapsed) => fitsAtOpeningScale(computeLayout(collapseTree(buildTree(map), collapsed).tree, window), window) },
];

test("a small map is expanded; in a map that does not fit the window, completed branches are collapsed, not the active task's", () => {
  const small = createMapWithPlans(3, 5);
  assert.equal(chooseCollapsedNodes(small, createPartsToFit(small, WINDOW)).size, 0);
  const map = createMapWithPlans(8, 4);
  map.nodes["p6s3"]!.status = "in_progress";
  for (const id of ["p0", "p1", "p2"]) for (const child of [id, ...map.nodes[id]!.children]) map.nodes[child]!.status = "completed";
  const collapsed = chooseCollapsedNodes(map, createPartsToFit(map, { width: 850, height: 700 }));
  for (const id of ["p0", "p1", "p2"]) assert.ok(collapsed.has(id));
  for (const id of ["p3", "p4", "p6"]) assert.ok(!collapsed.has(id));
  assert.ok(chooseCollapsedNodes(map, createPartsToFit(map, { width: 300, height: 700 })).size > 3);
  assert.ok(!chooseCollapsedNodes(map, []).has("p6"));
});

test("expanding a part stops after 24 branches that do not fit", () => {
  const map = createMapWithPlans(40, 1);
  let tries = -1; // the first call of `fits` is for the part before anything is expanded
  chooseCollapsedNodes(map, [{ has: () => true, fits: () => ++tries === 0 }]);
  assert.equal(tries, 24);
});

test("the status of a node that is no task does not affect the order in which nodes are expanded", () => {
  const map = createMap({ first: { type: "component" }, a: { parentId: "first" }, second: { type: "component" }, b: { parentId: "second", type: "note" } });
  map.nodes["first"]!.status = "completed";
  map.nodes["b"]!.status = "in_progress";
  const collapsed = chooseCollapsedNodes(map, [{ has: () => true, fits: (nodes) => nodes.size > 0 }]);
  assert.deepEqual([...collapsed], ["second"]);
});

test("the order in which nodes are expanded is computed once for a map", () => {
  const map = createMapWithPlans(3, 5);
  let reads = 0;
  for (const node of Object.values(map.nodes)) Object.defineProperty(node, "status", { get: () => (reads++, "planned") });
  const parts = [{ has: () => true, fits: () => true }];
  chooseCollapsedNodes(map, parts);
  const firstReads = reads;
  chooseCollapsedNodes(map, parts);
  assert.ok(firstReads > 0 && reads === firstReads, `${firstReads} and ${reads}`);
});

test("formatting a parsed route gives the same URL fragment, and an invalid fragment is the route of the list of maps", () => {
  for (const hash of ["#/", "#/map/mm_1", "#/map/mm_1/node/n_2", "#/map/mm_1/node/n_2?view=plan", "#/map/mm_1?view=both"]) {
    assert.equal(formatRoute(parseRoute(hash)), hash);
  }
  assert.deepEqual(parseRoute("#/elsewhere/%E0%A4%A?view=sideways"), { map: null, node: null, view: null });
});

test("links run around the cards, and their labels cover neither cards nor each other", () => {
  const map = createMapWithPlans(9, 6);
  const ids = Object.keys(map.nodes);
  const links = Array.from({ length: 30 }, (_, index) => ({ id: `${index}`, from: ids[(index * 7 + 2) % ids.length]!, to: ids[(index * 13 + 9) % ids.length]!, label: "calls" }));
  const layout = computeLayout(buildTree(map), { width: 2000, height: 1000 });
  const routes = routeLinks(links, layout, new Map(ids.map((id) => [id, id])), measureFixedWidth).filter(({ from, to }) => from !== to);
  const cards = [...layout.cards.values()];
  for (const { path } of routes) {
    const points = [...path.matchAll(/(-?[\d.]+) (-?[\d.]+)/gu)].map(([, x, y]) => ({ x: Number(x), y: Number(y), width: 0, height: 0 }));
    for (const [index, point] of points.slice(1).entries()) {
      const crossed = cards.filter((card) => intersects(shrinkBox(card), uniteBoxes(points[index]!, point)));
      assert.deepEqual(crossed.map(({ branch }) => branch.id), [], path);
    }
  }
  const labelledRoutes = routes.filter(({ isCrowded }) => !isCrowded);
  assert.ok(labelledRoutes.length > 3, `${labelledRoutes.length} of ${routes.length} labels`);
  const labelBoxes = labelledRoutes.map(({ labelPoint: [x, y] }) => ({ x: x - 28, y: y - 8, width: 56, height: 16 }));
  for (const [index, label] of labelBoxes.entries()) assert.ok(![...cards, ...labelBoxes.slice(index + 1)].some((box) => intersects(box, label)));
});

const shrinkBox = ({ x, y, width, height }: Box): Box => ({ x: x + 1, y: y + 1, width: width - 2, height: height - 2 });
