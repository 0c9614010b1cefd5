import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mindmap } from "../src/api/types";
import { cardOf } from "../src/layout/card";
import { type Layout, laidOut, meets } from "../src/layout/layout";
import { routed } from "../src/layout/links";
import { shortened, wrapped } from "../src/layout/text";
import { type Branch, grown, walked } from "../src/model/tree";
import { folded, unfolded } from "../src/state/folding";
import { parsed, written } from "../src/state/route";
import { aMap, letters } from "./maps";

const fonts = { label: letters, bold: letters, small: letters };

function many(plans: number, steps: number): Mindmap {
  const nodes: Parameters<typeof aMap>[0] = {};
  for (let plan = 0; plan < plans; plan++) {
    nodes[`p${plan}`] = { type: "plan" };
    for (let step = 0; step < steps; step++) nodes[`p${plan}s${step}`] = { under: `p${plan}`, label: `Step ${step} with some more words` };
  }
  return aMap(nodes);
}

function layoutOf(tree: Branch, aspect = 1.5, before?: Layout): Layout {
  const cards = [...walked(tree)].map(({ id, node, children }) => [id, cardOf(node, undefined, 0, children.length > 0, fonts)] as const);
  return laidOut(tree, new Map(cards), aspect, before);
}

test("lines break between words, long words break, and what does not fit ends with an ellipsis", () => {
  assert.deepEqual(wrapped("one two three", 70, 3, letters), ["one two", "three"]);
  assert.deepEqual(wrapped("abcdefghij", 40, 3, letters), ["abcd", "efgh", "ij"]);
  assert.deepEqual(wrapped("one two three four", 70, 2, letters), ["one two", "three…"]);
  assert.deepEqual(wrapped("", 70, 2, letters), []);
  assert.ok(shortened("👩‍🚀 abc", 1, letters).endsWith("…"));
});

test("no card covers another, and all are within the bounds", () => {
  for (const map of [many(0, 0), many(1, 1), many(3, 9), many(40, 12)]) {
    const layout = layoutOf(grown(map));
    const places = [...layout.places.values()];
    assert.equal(places.length, Object.keys(map.nodes).length);
    for (const [at, one] of places.entries()) {
      assert.ok(one.x >= layout.bounds.x && one.y + one.height <= layout.bounds.y + layout.bounds.height + 0.001);
      for (const other of places.slice(at + 1)) assert.ok(!meets(one, other), `${one.branch.id} covers ${other.branch.id}`);
    }
  }
});

test("a large map takes about the shape of its window", () => {
  for (const aspect of [0.6, 1, 2]) {
    const { bounds } = layoutOf(grown(many(60, 10)), aspect);
    assert.ok(Math.abs(Math.log(bounds.width / bounds.height / aspect)) < 0.4, `${bounds.width} x ${bounds.height}`);
  }
});

test("a shape worked out before stands as one worked out now, and another height makes another shape", () => {
  const corners = (map: Mindmap): string[] => [...layoutOf(grown(map)).places.values()].map(({ x, y }) => `${x} ${y}`);
  const map = many(6, 4);
  const first = corners(map);
  assert.deepEqual(corners(map), first);
  map.nodes["p0s1"]!.label = "A label so long that it takes a second and a third line of its card to be told";
  const after = corners(map);
  assert.notDeepEqual(after, first);
  assert.equal(new Set(after).size, after.length);
});

test("a map that grows by a branch keeps its columns", () => {
  const before = layoutOf(grown(many(30, 10)));
  assert.equal(layoutOf(grown(many(31, 10)), 1.5, before).columns, before.columns);
});

test("a link leads to the card under which its end is folded away, and similar ones are drawn once", () => {
  const links = [
    { id: "1", from: "b", to: "d", label: "x" },
    { id: "2", from: "c", to: "d", label: "y" },
    { id: "3", from: "b", to: "c", label: "hidden" },
    { id: "4", from: "d", to: "a", label: "", style: "dashed" },
  ];
  const map = aMap({ a: {}, b: { under: "a" }, c: { under: "a" }, d: {} }, { links });
  const { tree, hidden, home } = unfolded(grown(map), new Set(["a"]));
  assert.equal(hidden.get("a"), 2);
  assert.equal(home.get("b"), "a");
  const said = routed(map.links, layoutOf(tree), home).map(({ from, to, style, label }) => [from, to, style, label]);
  assert.deepEqual(said, [["a", "d", "solid", "x +1"], ["d", "a", "dashed", ""]]);
});

test("a small map is open, a large one as far as a person takes in, the work in hand first", () => {
  assert.equal(folded(many(3, 5)).size, 0);
  const map = many(28, 10);
  map.nodes["p17s3"]!.status = "in_progress";
  const closed = folded(map);
  assert.ok(!closed.has("p17") && !closed.has("root"));
  assert.ok(closed.size >= 25);
});

test("an address and what it shows are the same thing, and odd ones show the sessions", () => {
  for (const hash of ["#/", "#/map/mm_1", "#/map/mm_1/node/n_2", "#/map/mm_1/node/n_2?view=plan", "#/map/mm_1?view=both"]) {
    assert.equal(written(parsed(hash)), hash);
  }
  assert.deepEqual(parsed("#/elsewhere/%E0%A4%A?view=sideways"), { map: null, node: null, view: null });
});
