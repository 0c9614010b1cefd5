import assert from "node:assert/strict";
import { test } from "node:test";
import { isolated, parsed } from "../src/api/isolating";
import { changed, kept } from "../src/model/changes";
import { named } from "../src/model/named";
import { activeTask, progressUnder } from "../src/model/progress";
import { crossings, related, touching } from "../src/model/related";
import { asked, found } from "../src/model/search";
import { grown, modelSide, walked } from "../src/model/tree";
import { CHANGES } from "../src/model/vocabulary";
import { aMap } from "./maps";

test("changes read as the specification writes them", () => {
  const said = Object.entries(CHANGES).map(([kind, [glyph, label]]) => `${kind} ${glyph} ${label}`);
  const plan = "add + Added|modify ~ Modified|fix ✱ Fixed|refactor ⟲ Refactored|rename ↦ Renamed|remove − Removed|test ✓ Tested";
  assert.deepEqual(said, plan.split("|"));
});

test("progress counts tasks under a node, and no notes, concepts nor the root", () => {
  const map = aMap({
    plan: { type: "plan", status: "completed" },
    a: { under: "plan", status: "completed" },
    b: { under: "plan", status: "blocked" },
    c: { under: "b", type: "code", status: "in_progress" },
    note: { under: "plan", type: "note" },
    risk: { type: "risk" },
  });
  const progress = progressUnder(map);
  assert.deepEqual(progress.get("root"), { done: 2, active: 1, blocked: 1, total: 4 });
  assert.deepEqual(progress.get("plan"), { done: 1, active: 1, blocked: 1, total: 3 });
  assert.deepEqual(progress.get("c"), { done: 0, active: 0, blocked: 0, total: 0 });
});

test("the active task is the one updated last, by its own date or else by the log's", () => {
  const at = { status: "in_progress" };
  const log = [{ timestamp: "2026-01-03", message: "", nodeId: "a" }];
  assert.equal(activeTask(aMap({ a: at, b: { ...at, updatedAt: "2026-01-02" } }, { activityLog: log })), "a");
  assert.equal(activeTask(aMap({ a: {} })), null);
});

test("a side of the map has each node under its nearest ancestor that is shown there", () => {
  const map = aMap({
    plan: { type: "plan" },
    parser: { type: "component", under: "plan" },
    step: { under: "parser" },
    remark: { under: "parser", type: "note" },
    aside: { type: "note" },
  });
  const model = modelSide(map);
  const shape = (side: boolean): string[] =>
    [...walked(grown(map, ({ id }) => model.has(id) === side))].map(({ id, parent }) => `${parent?.id ?? ""}>${id}`);
  assert.deepEqual(shape(false), [">root", "root>plan", "plan>step", "root>aside"]);
  assert.deepEqual(shape(true), [">root", "root>parser", "parser>remark"]);
});

test("a map at odds with itself is still a tree", () => {
  const map = aMap({ a: {}, b: { under: "a" } });
  map.nodes["b"]!.children.push("a", "gone");
  map.nodes["root"]!.children.push("b");
  assert.deepEqual([...walked(grown(map))].map(({ id }) => id), ["root", "a", "b"]);
});

test("a search takes words, quoted words and filters, in any case", () => {
  const map = aMap({
    parse: { label: "Parse the tokens", status: "blocked", touches: [{ path: "src/lexer.py", symbols: ["next_token"] }] },
    risk: { label: "Tokens overflow", type: "risk" },
    plain: { label: "Write the docs" },
  });
  const ids = (line: string, statuses: string[] = []): string[] => found(map, asked(line, [], statuses));
  assert.deepEqual(ids("TOKENS"), ["parse", "risk"]);
  assert.deepEqual(ids('"the tokens"'), ["parse"]);
  assert.deepEqual(ids("tokens type:risk"), ["risk"]);
  assert.deepEqual(ids("next_token"), ["parse"]);
  assert.deepEqual(ids("file:lexer"), ["parse"]);
  assert.deepEqual(ids("status:planned"), ["plain"]);
  assert.deepEqual(ids("", ["blocked"]), ["parse"]);
  assert.deepEqual(ids("   "), []);
});

test("nodes meet through links and through files, file nodes included", () => {
  const map = aMap(
    { a: { touches: [{ path: "x.py" }] }, b: { type: "component", touches: [{ path: "x.py" }] }, f: { type: "file", label: "x.py" }, c: {}, d: {} },
    { links: [{ id: "l", from: "c", to: "a", label: "needs" }] },
  );
  const cross = crossings(map);
  assert.deepEqual([...related(map, cross, "a")].sort(), ["b", "c", "f"]);
  assert.deepEqual([...related(map, cross, "d")], []);
  assert.deepEqual([...touching(map, cross, "x.py")].sort(), ["a", "b", "f"]);
});

test("an entry of the log names its node, or its file's, or what its message quotes", () => {
  const map = aMap({ a: { label: "It's done" }, b: { label: "A long label that goes on" }, c: { touches: [{ path: "x.py" }] } });
  const names = (entry: { message: string; nodeId?: string; file?: string }): string[] =>
    [...named(map, crossings(map), { timestamp: "", ...entry })];
  assert.deepEqual(names({ message: "whatever", nodeId: "b" }), ["b"]);
  assert.deepEqual(names({ message: "Modify x.py", file: "x.py" }), ["c"]);
  assert.deepEqual(names({ message: `Updated "It's done", 'A long label…'` }), ["a", "b"]);
  assert.deepEqual(names({ message: "nothing of it", nodeId: "gone" }), []);
});

test("what changed is new nodes, changed ones, and the ends of new links; the rest stays the same object", () => {
  const before = aMap({ a: {}, b: {}, c: {}, d: {} });
  const links = [{ id: "l", from: "a", to: "e", label: "" }];
  const after = aMap({ a: {}, b: { status: "completed" }, c: {}, d: {}, e: { under: "d" } }, { links });
  assert.deepEqual([...changed(before, after)], [["b", "changed"], ["e", "added"], ["a", "changed"]]);
  const settled = kept(before, after);
  assert.equal(settled.nodes["c"], before.nodes["c"]);
  assert.notEqual(settled.nodes["b"], before.nodes["b"]);
  assert.equal(settled.nodes["d"], after.nodes["d"]);
});

test("a text that turns the direction of writing closes what it opens, and is left alone otherwise", () => {
  assert.equal(isolated("plain"), "plain");
  assert.equal(isolated("a\u202Eb"), "\u2068a\u202Eb\u202C\u2069");
  assert.equal(isolated("a\u2069b\u202C"), "\u2068ab\u2069");
  assert.equal(isolated("\u2067a\u202Bb"), "\u2068\u2067a\u202Bb\u202C\u2069\u2069");
  const text = JSON.stringify({ nodes: { x: { label: "a\u202Eb", files: [{ path: "p\u202E" }] } } });
  const { nodes } = parsed(text) as { nodes: { x: { label: string; files: { path: string }[] } } };
  assert.deepEqual([nodes.x.label, nodes.x.files[0]!.path], [isolated("a\u202Eb"), "p\u202E"]);
});
