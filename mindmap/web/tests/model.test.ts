import assert from "node:assert/strict";
import { test } from "node:test";
import { isolateBidi, parseJson } from "../src/api/bidi";
import { findChanges, reuseUnchangedNodes } from "../src/model/changes";
import { findMentions } from "../src/model/mentions";
import { findActiveTask, computeProgress } from "../src/model/progress";
import { buildRelations, findRelated, nodesWithFile } from "../src/model/relations";
import { parseQuery, findNodes } from "../src/model/search";
import { buildTree, modelNodeIds, walkTree } from "../src/model/tree";
import { CHANGES } from "../src/model/vocabulary";
import { createMap } from "./maps";

test("kinds of change have the glyphs and labels of the specification", () => {
  const lines = Object.entries(CHANGES).map(([kind, [glyph, label]]) => `${kind} ${glyph} ${label}`);
  const expected = "add + Added|modify ~ Modified|fix ✱ Fixed|refactor ⟲ Refactored|rename ↦ Renamed|remove − Removed|test ✓ Tested";
  assert.deepEqual(lines, expected.split("|"));
});

test("progress counts the tasks below a node, but no notes, concepts or the root", () => {
  const map = createMap({
    plan: { type: "plan", status: "completed" },
    a: { parentId: "plan", status: "completed" },
    b: { parentId: "plan", status: "blocked" },
    c: { parentId: "b", type: "code", status: "in_progress" },
    note: { parentId: "plan", type: "note" },
    risk: { type: "risk" },
  });
  const progress = computeProgress(map);
  assert.deepEqual(progress.get("root"), { done: 2, active: 1, blocked: 1, total: 4 });
  assert.deepEqual(progress.get("plan"), { done: 1, active: 1, blocked: 1, total: 3 });
  assert.deepEqual(progress.get("c"), { done: 0, active: 0, blocked: 0, total: 0 });
});

test("the active task is the most recently updated one, by its own date or the log's", () => {
  const at = { status: "in_progress" };
  const log = [{ timestamp: "2026-01-03", message: "", nodeId: "a" }];
  assert.equal(findActiveTask(createMap({ a: at, b: { ...at, updatedAt: "2026-01-02" } }, { activityLog: log })), "a");
  assert.equal(findActiveTask(createMap({ a: {} })), null);
});

test("each side of the map has every node below its nearest ancestor on that side", () => {
  const map = createMap({
    plan: { type: "plan" },
    parser: { type: "component", parentId: "plan" },
    step: { parentId: "parser" },
    remark: { parentId: "parser", type: "note" },
    aside: { type: "note" },
  });
  const model = modelNodeIds(map);
  const shape = (side: boolean): string[] =>
    [...walkTree(buildTree(map, ({ id }) => model.has(id) === side))].map(({ id, parent }) => `${parent?.id ?? ""}>${id}`);
  assert.deepEqual(shape(false), [">root", "root>plan", "plan>step", "root>aside"]);
  assert.deepEqual(shape(true), [">root", "root>parser", "parser>remark"]);
});

test("an inconsistent map still gives a tree", () => {
  const map = createMap({ a: {}, b: { parentId: "a" } });
  map.nodes["b"]!.children.push("a", "gone");
  map.nodes["root"]!.children.push("b");
  assert.deepEqual([...walkTree(buildTree(map))].map(({ id }) => id), ["root", "a", "b"]);
});

test("a search accepts words, quoted phrases and filters, ignoring case", () => {
  const map = createMap({
    parse: { label: "Parse the tokens", status: "blocked", touches: [{ path: "src/lexer.py", symbols: ["next_token"] }] },
    risk: { label: "Tokens overflow", type: "risk" },
    plain: { label: "Write the docs" },
  });
  const ids = (line: string, statuses: string[] = []): string[] => findNodes(map, parseQuery(line, [], statuses));
  assert.deepEqual(ids("TOKENS"), ["parse", "risk"]);
  assert.deepEqual(ids('"the tokens"'), ["parse"]);
  assert.deepEqual(ids("tokens type:risk"), ["risk"]);
  assert.deepEqual(ids("next_token"), ["parse"]);
  assert.deepEqual(ids("file:lexer"), ["parse"]);
  assert.deepEqual(ids("status:planned"), ["plain"]);
  assert.deepEqual(ids("", ["blocked"]), ["parse"]);
  assert.deepEqual(ids("   "), []);
});

test("nodes are related by links and files, file nodes included", () => {
  const map = createMap(
    { a: { touches: [{ path: "x.py" }] }, b: { type: "component", touches: [{ path: "x.py" }] }, f: { type: "file", label: "x.py" }, c: {}, d: {} },
    { links: [{ id: "l", from: "c", to: "a", label: "needs" }] },
  );
  const cross = buildRelations(map);
  assert.deepEqual([...findRelated(map, cross, "a")].sort(), ["b", "c", "f"]);
  assert.deepEqual([...findRelated(map, cross, "d")], []);
  assert.deepEqual([...nodesWithFile(map, cross, "x.py")].sort(), ["a", "b", "f"]);
});

test("a log entry mentions its node, the nodes of its file, or the labels quoted in its message", () => {
  const map = createMap({ a: { label: "It's done" }, b: { label: "A long label that goes on" }, c: { touches: [{ path: "x.py" }] } });
  const names = (entry: { message: string; nodeId?: string; file?: string }): string[] =>
    [...findMentions(map, buildRelations(map), { timestamp: "", ...entry })];
  assert.deepEqual(names({ message: "whatever", nodeId: "b" }), ["b"]);
  assert.deepEqual(names({ message: "Modify x.py", file: "x.py" }), ["c"]);
  assert.deepEqual(names({ message: `Updated "It's done", 'A long label…'` }), ["a", "b"]);
  assert.deepEqual(names({ message: "nothing of it", nodeId: "gone" }), []);
});

test("changes are new nodes, changed nodes and ends of new links; unchanged nodes stay the same object", () => {
  const before = createMap({ a: {}, b: {}, c: {}, d: {} });
  const links = [{ id: "l", from: "a", to: "e", label: "" }];
  const after = createMap({ a: {}, b: { status: "completed" }, c: {}, d: {}, e: { parentId: "d" } }, { links });
  assert.deepEqual([...findChanges(before, after)], [["b", "changed"], ["e", "added"], ["a", "changed"]]);
  const settled = reuseUnchangedNodes(before, after);
  assert.equal(settled.nodes["c"], before.nodes["c"]);
  assert.notEqual(settled.nodes["b"], before.nodes["b"]);
  assert.equal(settled.nodes["d"], after.nodes["d"]);
});

test("text with direction controls is isolated, and other text is unchanged", () => {
  assert.equal(isolateBidi("plain"), "plain");
  assert.equal(isolateBidi("a\u202Eb"), "\u2068a\u202Eb\u202C\u2069");
  assert.equal(isolateBidi("a\u2069b\u202C"), "\u2068ab\u2069");
  assert.equal(isolateBidi("\u2067a\u202Bb"), "\u2068\u2067a\u202Bb\u202C\u2069\u2069");
  const text = JSON.stringify({ nodes: { x: { label: "a\u202Eb", files: [{ path: "p\u202E" }] } } });
  const { nodes } = parseJson(text) as { nodes: { x: { label: string; files: { path: string }[] } } };
  assert.deepEqual([nodes.x.label, nodes.x.files[0]!.path], [isolateBidi("a\u202Eb"), "p\u202E"]);
});
