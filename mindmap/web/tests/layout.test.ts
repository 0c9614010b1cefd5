import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mindmap } from "../src/api/types";
import { createCard } from "../src/layout/card";
import { type Layout, layOutMap, intersects } from "../src/layout/layout";
import { routeLinks } from "../src/layout/links";
import { truncateText, wrapText } from "../src/layout/text";
import { type Branch, buildTree, walkTree } from "../src/model/tree";
import { chooseCollapsedNodes, collapseTree } from "../src/state/collapse";
import { parseRoute, formatRoute } from "../src/state/route";
import { createMap, measureFixedWidth } from "./maps";

const fonts = { label: measureFixedWidth, bold: measureFixedWidth, small: measureFixedWidth };

function createMapWithPlans(plans: number, steps: number): Mindmap {
  const nodes: Parameters<typeof createMap>[0] = {};
  for (let plan = 0; plan < plans; plan++) {
    nodes[`p${plan}`] = { type: "plan" };
    for (let step = 0; step < steps; step++) nodes[`p${plan}s${step}`] = { parentId: `p${plan}`, label: `Step ${step} with some more words` };
  }
  return createMap(nodes);
}

function computeLayout(tree: Branch, aspect = 1.5, previous?: Layout): Layout {
  const cards = [...walkTree(tree)].map(({ id, node, children }) => [id, createCard(node, undefined, 0, children.length > 0, fonts)] as const);
  return layOutMap(tree, new Map(cards), aspect, previous);
}

test("lines break between words, long words are split, and truncated text ends with an ellipsis", () => {
  assert.deepEqual(wrapText("one two three", 70, 3, measureFixedWidth), ["one two", "three"]);
  assert.deepEqual(wrapText("abcdefghij", 40, 3, measureFixedWidth), ["abcd", "efgh", "ij"]);
  assert.deepEqual(wrapText("one two three four", 70, 2, measureFixedWidth), ["one two", "three…"]);
  assert.deepEqual(wrapText("", 70, 2, measureFixedWidth), []);
  assert.ok(truncateText("👩‍🚀 abc", 1, measureFixedWidth).endsWith("…"));
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
    const { bounds } = computeLayout(buildTree(createMapWithPlans(60, 10)), aspect);
    assert.ok(Math.abs(Math.log(bounds.width / bounds.height / aspect)) < 0.4, `${bounds.width} x ${bounds.height}`);
  }
});

test("a cached tree layout equals a computed one, and another card height gives another layout", () => {
  const listCorners = (map: Mindmap): string[] => [...computeLayout(buildTree(map)).cards.values()].map(({ x, y }) => `${x} ${y}`);
  const map = createMapWithPlans(6, 4);
  const cornersBefore = listCorners(map);
  assert.deepEqual(listCorners(map), cornersBefore);
  map.nodes["p0s1"]!.label = "A label so long that it takes a second and a third line of its card to be shown";
  const cornersAfter = listCorners(map);
  assert.notDeepEqual(cornersAfter, cornersBefore);
  assert.equal(new Set(cornersAfter).size, cornersAfter.length);
});

test("a map with one more branch keeps its number of columns", () => {
  const before = computeLayout(buildTree(createMapWithPlans(30, 10)));
  assert.equal(computeLayout(buildTree(createMapWithPlans(31, 10)), 1.5, before).columns, before.columns);
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
  const routes = routeLinks(map.links, computeLayout(tree), visibleIdOf).map(({ from, to, style, label }) => [from, to, style, label]);
  assert.deepEqual(routes, [["a", "d", "solid", "x +1"], ["d", "a", "dashed", ""]]);
});

test("a small map is expanded, a large one partly, starting with the active tasks", () => {
  assert.equal(chooseCollapsedNodes(createMapWithPlans(3, 5)).size, 0);
  const map = createMapWithPlans(28, 10);
  map.nodes["p17s3"]!.status = "in_progress";
  const collapsed = chooseCollapsedNodes(map);
  assert.ok(!collapsed.has("p17") && !collapsed.has("root"));
  assert.ok(collapsed.size >= 25);
});

test("formatting a parsed route gives the same URL fragment, and an invalid fragment is the route of the sessions", () => {
  for (const hash of ["#/", "#/map/mm_1", "#/map/mm_1/node/n_2", "#/map/mm_1/node/n_2?view=plan", "#/map/mm_1?view=both"]) {
    assert.equal(formatRoute(parseRoute(hash)), hash);
  }
  assert.deepEqual(parseRoute("#/elsewhere/%E0%A4%A?view=sideways"), { map: null, node: null, view: null });
});
