import assert from "node:assert/strict";
import { test } from "node:test";
import { buildViewerCommand, escapeHiddenCharacters, isolateBidi, parseJsonAndIsolateTexts } from "../src/api/client";
import { describeEntry, findMentions, groupEntries, hasSeveralAuthors } from "../src/model/activity";
import { reconcileMap } from "../src/model/changes";
import { computeProgress, findActiveTask, listOpenQuestions } from "../src/model/progress";
import { buildRelations, findCrossLinks, findNodesWithFile, findRelated } from "../src/model/relations";
import { findNodes, parseQuery } from "../src/model/search";
import { buildTree, findModelNodeIds, walkTree } from "../src/model/tree";
import { CHANGE_KINDS } from "../src/model/vocabulary";
import { createMap } from "./maps";

test("kinds of change have the glyphs and labels of the specification", () => {
  const lines = Object.entries(CHANGE_KINDS).map(([kind, [glyph, label]]) => `${kind} ${glyph} ${label}`);
  const expected = "add + Added|modify ~ Modified|fix ✱ Fixed|refactor ⟲ Refactored|rename ↦ Renamed|remove − Removed|test ✓ Tested";
  assert.deepEqual(lines, expected.split("|"));
});

test("progress counts the tasks below a node, but not the node itself, notes or concepts", () => {
  const map = createMap({
    plan: { type: "plan", status: "completed" },
    a: { parentId: "plan", status: "completed" },
    b: { parentId: "plan", status: "blocked" },
    c: { parentId: "b", type: "code", status: "in_progress" },
    note: { parentId: "plan", type: "note" },
    risk: { type: "risk" },
  });
  const progress = computeProgress(map);
  assert.equal(computeProgress(map), progress);
  assert.deepEqual(progress.get("root"), { done: 2, active: 1, blocked: 1, total: 4 });
  assert.deepEqual(progress.get("plan"), { done: 1, active: 1, blocked: 1, total: 3 });
  assert.deepEqual(progress.get("c"), { done: 0, active: 0, blocked: 0, total: 0 });
});

test("the active task is the task in progress that was updated last; without a time of its own, its log entry counts", () => {
  const activeFields = { status: "in_progress" };
  const log = [{ timestamp: "2026-01-03", message: "", nodeId: "a" }];
  assert.equal(findActiveTask(createMap({ a: activeFields, b: { ...activeFields, updatedAt: "2026-01-02" } }, { activityLog: log })), "a");
  assert.equal(findActiveTask(createMap({ a: {} })), null);
});

test("a task that only has a later time of update becomes the active task, and is no changed node", () => {
  const createMapWithTasks = (updatedAt: string): ReturnType<typeof createMap> => createMap({ a: { status: "in_progress", updatedAt }, b: { status: "in_progress", updatedAt: "2026-01-02" } });
  const [before, after] = [createMapWithTasks("2026-01-01"), createMapWithTasks("2026-01-03")];
  assert.deepEqual([...reconcileMap(before, after).nodes], []);
  assert.deepEqual([findActiveTask(before), findActiveTask(after), after.nodes["a"]!.updatedAt], ["b", "a", "2026-01-03"]);
});

test("in the plan and in the model, every node is below its nearest ancestor of the same part", () => {
  const map = createMap({
    plan: { type: "plan" },
    parser: { type: "component", parentId: "plan" },
    step: { parentId: "parser" },
    remark: { parentId: "parser", type: "note" },
    aside: { type: "note" },
  });
  const modelIds = findModelNodeIds(map);
  const listEdges = (part: "plan" | "model"): string[] =>
    [...walkTree(buildTree(map, ({ id }) => modelIds.has(id) === (part === "model")))].map(({ id, parent }) => `${parent?.id ?? ""}>${id}`);
  assert.deepEqual(listEdges("plan"), [">root", "root>plan", "plan>step", "root>aside"]);
  assert.deepEqual(listEdges("model"), [">root", "root>parser", "parser>remark"]);
});

test("a tree has no cycles, duplicates or missing nodes, even if the map has", () => {
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
  const search = (queryText: string, statuses: string[] = []): string[] => findNodes(map, parseQuery(queryText, [], statuses));
  assert.deepEqual(search("TOKENS"), ["parse", "risk"]);
  assert.deepEqual(search('"the tokens"'), ["parse"]);
  assert.deepEqual(search("tokens type:risk"), ["risk"]);
  assert.deepEqual(search("next_token"), ["parse"]);
  assert.deepEqual(search("file:lexer"), ["parse"]);
  assert.deepEqual(search("status:planned"), ["plain"]);
  assert.deepEqual(search("", ["blocked"]), ["parse"]);
  assert.deepEqual(search("   "), []);
});

test("nodes are related by links and by shared files, nodes of type file included", () => {
  const map = createMap(
    { a: { touches: [{ path: "x.py" }] }, b: { type: "component", touches: [{ path: "x.py" }] }, f: { type: "file", label: "x.py" }, c: {}, d: {} },
    { links: [{ id: "l", from: "c", to: "a", label: "needs" }] },
  );
  const relations = buildRelations(map);
  assert.deepEqual([...findRelated(map, relations, "a")].sort(), ["b", "c", "f"]);
  assert.deepEqual([...findRelated(map, relations, "d")], []);
  assert.deepEqual([...findNodesWithFile(relations, "x.py")].sort(), ["a", "b", "f"]);
});

test("a link between plan and model has an end in each; links of the root or of missing nodes do not count", () => {
  const ends = [["step", "parser"], ["parser", "step"], ["step", "other"], ["parser", "remark"], ["root", "parser"], ["step", "root"], ["gone", "parser"], ["step", "gone"]];
  const links = ends.map(([from, to], index) => ({ id: `${index}`, from: from!, to: to!, label: "" }));
  const map = createMap({ step: {}, other: {}, parser: { type: "component" }, remark: { type: "note", parentId: "parser" } }, { links });
  assert.deepEqual(findCrossLinks(map, findModelNodeIds(map)).map(({ id }) => id), ["0", "1"]);
});

test("a log entry mentions its node, the nodes of its file, or the labels quoted in its message", () => {
  const map = createMap({ a: { label: "It's done" }, b: { label: "A long label that goes on" }, c: { touches: [{ path: "x.py" }] } });
  const listMentions = (entry: { message: string; nodeId?: string; file?: string }): string[] =>
    [...findMentions(map, buildRelations(map), { timestamp: "", ...entry })];
  assert.deepEqual(listMentions({ message: "whatever", nodeId: "b" }), ["b"]);
  assert.deepEqual(listMentions({ message: "Modify x.py", file: "x.py" }), ["c"]);
  assert.deepEqual(listMentions({ message: `Updated "It's done", 'A long label…'` }), ["a", "b"]);
  assert.deepEqual(listMentions({ message: "nothing of it", nodeId: "gone" }), []);
});

test("the labels of a map are read once for all entries that quote labels", () => {
  const map = createMap({ a: {}, b: {} });
  let reads = 0;
  for (const node of Object.values(map.nodes)) Object.defineProperty(node, "label", { get: () => (reads++, `Label  of ${node.id}`) });
  const relations = buildRelations(map);
  const mentions = ["'Label of b' and 'Label of a'", "'Label of…'", "'Label of c'"].map((message) => [...findMentions(map, relations, { timestamp: "", message })].join(" "));
  assert.deepEqual(mentions, ["b a", "root a b", ""]);
  assert.equal(reads, 3);
});

test("log entries are shown in words, whatever their labels contain", () => {
  const describe = (message: string, fields: { nodeId?: string; file?: string; client?: string } = {}): string => {
    const { kind, verb, subject, detail, status } = describeEntry({ timestamp: "", message, ...fields });
    return [kind + (status && `:${status}`), verb, subject, detail].join("|");
  };
  const nodeId = "n_1";
  assert.equal(describe("Created 'A map'"), "create|Created|A map|");
  assert.equal(describe("Added 'under \\'b\\'' under \"it's\"", { nodeId }), "add|Added|under 'b'|under it's");
  assert.equal(describe("Added 1,200 nodes under 'Tests'"), "add|Added 1,200 nodes under|Tests|");
  assert.equal(describe("Moved 2 nodes under 'Tests'"), "move|Moved 2 nodes under|Tests|");
  assert.equal(describe("Lexer: now: planned -> in_progress", { nodeId }), "status:in_progress|Started|Lexer: now|");
  assert.equal(describe("Lexer: renamed to 'a, b', task -> plan, no status -> completed", { nodeId }), "status:completed|Completed|Lexer|renamed to a, b, Task → Plan");
  assert.equal(describe("Lexer: renamed to 'read -> parse', task -> plan", { nodeId }), "change|Changed|Lexer|renamed to read -> parse, Task → Plan");
  assert.equal(describe("Lexer: reason removed", { nodeId }), "change|Changed|Lexer|reason removed");
  assert.equal(describe("Lexer: renamed to 'Scanner', reason removed", { nodeId }), "change|Changed|Lexer|renamed to Scanner, reason removed");
  assert.equal(describe("Lexer: task -> data_flow", { nodeId }), "change|Changed|Lexer|Task → Data flow");
  assert.equal(describe("Lexer: planned -> blocked, reason: no grammar: ask", { nodeId }), "status:blocked|Blocked|Lexer|no grammar: ask");
  assert.equal(describe("Lexer: reason: none yet", { nodeId }), "change|Changed|Lexer|none yet");
  assert.equal(describe("Asked the user: Which?", { nodeId }), "ask|Asked you:|Which?|");
  assert.equal(describe("User answered 'Which?': nginx", { nodeId }), "comment|You answered:|nginx|");
  assert.equal(describe("User commented on 'Lexer': Slow", { nodeId }), "comment|You commented on|Lexer|Slow");
  for (const message of ["User answered 'Which?': nginx", "User commented on 'Lexer': Slow"]) {
    assert.equal(describe(message, { nodeId, client: "An agent" }), `note||${message}|`);
  }
  assert.equal(describe("Found it: caller -> callee", { nodeId }), "note||Found it: caller -> callee|");
  assert.equal(describe("Updated 3 nodes"), "change|Changed|3 nodes|");
  assert.equal(describe("Removed 'x'"), "remove|Removed|x|");
  assert.equal(describe("Removed 'x' (3 nodes including subtrees, 1 link)"), "remove|Removed|x|3 nodes including subtrees, 1 link");
  assert.equal(describe("Linked 'a' -> 'b': calls"), "link|Linked|a → b|calls");
  assert.equal(describe("Linked 4 pairs, Removed 1 link"), "link|Linked|4 pairs, Removed 1 link|");
  assert.equal(describe("Modify src/a.py: faster", { nodeId, file: "src/a.py" }), "file|Modified|src/a.py|faster");
  assert.equal(describe("Git sync: 13 files", { nodeId }), "sync|Git sync|13 files|");
  assert.equal(describe("Auto-detected file modify: a.py", { nodeId }), "sync|Auto-detected|file modify: a.py|");
  assert.equal(describe("The proxy buffers whole bodies"), "note||The proxy buffers whole bodies|");
});

test("entries of one kind and parent, node or status in quick succession form a group, but notes do not", () => {
  const map = createMap({ tests: { label: "Tests" }, a: { parentId: "tests", updatedAt: "2026-01-01T12:03:05Z" }, b: { parentId: "tests", updatedAt: "2026-01-01T12:03:05Z" }, c: { parentId: "tests" }, d: { touches: [{ path: "x.py" }] } });
  const messages: [string, string, { nodeId?: string; file?: string }][] = [
    ["12:09:30", "d: planned -> completed", { nodeId: "d" }],
    ["12:09:20", "c: planned -> completed", { nodeId: "c" }],
    ["12:09:10", "c: planned -> in_progress", { nodeId: "c" }],
    ["12:09:00", "Found one", {}],
    ["12:08:50", "Found another", {}],
    ["12:03:10", "Added 'c' under 'Tests'", { nodeId: "c" }],
    ["12:03:05", "Added 2 nodes under 'Tests'", {}],
    ["12:00:00", "Added 'd' under 'Tests'", { nodeId: "d" }],
    ["11:59:00", "Modify y.py", { nodeId: "d", file: "y.py" }],
    ["11:58:30", "Read x.py", { nodeId: "d", file: "x.py" }],
  ];
  const log = messages.map(([time, message, fields]) => ({ timestamp: `2026-01-01T${time}Z`, message, ...fields }));
  const groups = groupEntries(map, buildRelations(map), log.map((entry, index) => ({ entry, index })));
  assert.deepEqual(
    groups.map(({ verb, subject, detail, entries, nodes }) => `${[verb, subject, detail].filter(Boolean).join(" ")}: ${entries.length}, ${nodes.join(" ")}`),
    [
      "Completed 2 tasks: 2, d c",
      "Started c: 1, c",
      "Found one: 1, ",
      "Found another: 1, ",
      "Added 3 tasks under Tests: 2, c a b",
      "Added d under Tests: 1, d",
      "Touched 2 files: 2, d",
    ],
  );
});

test("numbers in labels are not counted as nodes or links of a burst", () => {
  const map = createMap({ tests: { label: "Check 7 nodes", type: "component" } });
  const group = (...messages: string[]): string[] =>
    groupEntries(map, buildRelations(map), messages.map((message, index) => ({ entry: { timestamp: "2026-01-01T12:00:00Z", message }, index }))).map(({ verb, subject }) => `${verb} ${subject}`);
  assert.deepEqual(group("Added 'Fix 12 links' under 'Check 7 nodes'", "Added 1,200 nodes under 'Check 7 nodes'"), ["Added 1,201 nodes under Check 7 nodes"]);
  assert.deepEqual(group("Added 'Fix 12 links' under 'Check 7 nodes'"), ["Added Fix 12 links"]);
  assert.deepEqual(group("Removed '12 nodes'", "Removed 3 nodes"), ["Removed 4 nodes"]);
  assert.deepEqual(group("Linked '12 links' -> 'b'", "Linked 4 pairs, Removed 2 links"), ["Linked 5 pairs"]);
});

test("a question and its answer change a node; the delivery of the answer does not, though the page shows it", () => {
  const question = { id: "q", text: "Which proxy?", askedAt: "1" };
  const states = [{}, { questions: [question] }, { questions: [{ ...question, answer: "nginx" }] }, { questions: [{ ...question, answer: "nginx", deliveredAt: "2" }] }, { comments: [{ id: "c", text: "Hm", timestamp: "3" }] }];
  const maps = states.map((fields) => createMap({ a: fields }));
  const nodes = maps.map((map) => map.nodes["a"]);
  const changes = maps.slice(1).map((map, index) => [...reconcileMap(maps[index]!, map).nodes.keys()].join());
  assert.deepEqual(changes, ["a", "a", "", "a"]);
  assert.ok(maps.every((map, index) => map.nodes["a"] === nodes[index]));
  assert.deepEqual(maps.map((map) => listOpenQuestions(map).length), [0, 1, 0, 0, 0]);
});

test("a group of the log keeps its key when a newer entry pushes out the oldest one", () => {
  const map = createMap({});
  const listKeys = (...times: string[]): string[] => groupEntries(map, buildRelations(map), times.map((timestamp, index) => ({ entry: { timestamp, message: "A note" }, index }))).map(({ key }) => key);
  const keys = listKeys("3", "2", "2", "1");
  assert.equal(new Set(keys).size, 4);
  assert.deepEqual(listKeys("4", "3", "2", "2").slice(1), keys.slice(0, 3));
});

test("entries of several agents form no burst, and the log has several authors", () => {
  const map = createMap({ a: {}, b: {} });
  const log = ["one", "one", "two"].map((client, index) => ({ timestamp: "2026-01-01T12:00:00Z", message: "a: planned -> completed", nodeId: index ? "a" : "b", client }));
  const groups = groupEntries(map, buildRelations(map), log.map((entry, index) => ({ entry, index })));
  assert.deepEqual(groups.map(({ entries }) => entries.length), [2, 1]);
  assert.deepEqual([hasSeveralAuthors(log), hasSeveralAuthors(log.slice(0, 2))], [true, false]);
});

test("new nodes, changed nodes and the ends of new links count as changes; unchanged nodes stay the same object", () => {
  const before = createMap({ a: {}, b: {}, c: {}, d: {} });
  const links = [{ id: "l", from: "a", to: "e", label: "" }];
  const after = createMap({ a: {}, b: { status: "completed" }, c: {}, d: {}, e: { parentId: "d" } }, { links });
  const { nodes, hasTreeChanged } = reconcileMap(before, after);
  assert.deepEqual([[...nodes], hasTreeChanged], [[["b", "changed"], ["e", "added"], ["a", "changed"]], true]);
  assert.equal(after.nodes["c"], before.nodes["c"]);
  assert.notEqual(after.nodes["b"], before.nodes["b"]);
  assert.deepEqual(after.nodes["d"]!.children, ["e"]);
  const mapWithNewLabel = createMap({ a: { label: "b" } });
  assert.equal(reconcileMap(createMap({ a: {} }), mapWithNewLabel).hasTreeChanged, false);
  assert.equal(reconcileMap(createMap({ a: {}, b: {} }), createMap({ a: {} })).hasTreeChanged, true);
  assert.equal(reconcileMap(createMap({ a: {}, b: {} }), createMap({ a: {}, b: { parentId: "a" } })).hasTreeChanged, true);
});

test("text with direction controls is isolated, and other text is unchanged", () => {
  assert.equal(isolateBidi("plain"), "plain");
  assert.equal(isolateBidi("a\u202Eb"), "\u2068a\u202Eb\u202C\u2069");
  assert.equal(isolateBidi("a\u2069b\u202C"), "\u2068ab\u2069");
  assert.equal(isolateBidi("\u2067a\u202Bb"), "\u2068\u2067a\u202Bb\u202C\u2069\u2069");
  const text = JSON.stringify({ nodes: { x: { label: "a\u202Eb", files: [{ path: "p\u202E" }] } } });
  const { nodes } = parseJsonAndIsolateTexts(text) as { nodes: { x: { label: string; files: { path: string }[] } } };
  assert.deepEqual([nodes.x.label, nodes.x.files[0]!.path], [isolateBidi("a\u202Eb"), "p\u202E"]);
});

test("characters in code that are not displayed are shown as code points", () => {
  assert.equal(escapeHiddenCharacters("if admin\u202E \u2066// check\u2069 \u200Fא"), "if admin<U+202E> <U+2066>// check<U+2069> <U+200F>א");
  assert.equal(escapeHiddenCharacters("a\u200Bb\u{E0041} \u2764\uFE0F \u{1F469}\u200D\u{1F4BB}"), "a<U+200B>b<U+E0041> \u2764\uFE0F \u{1F469}\u200D\u{1F4BB}");
});

test("the command that starts a viewer again names port and data directory unless they are the defaults", () => {
  const build = (port: string, dataDir: string): string => buildViewerCommand({ port }, { dataDir, defaultDataDir: "/home/me/.mindmap/data" });
  assert.equal(build("4870", "/home/me/.mindmap/data"), "mindmap viewer");
  assert.equal(build("4871", "/home/other/.mindmap/data"), "MINDMAP_DATA_DIR=/home/other/.mindmap/data mindmap viewer --port 4871");
  assert.equal(build("", "/it's here"), String.raw`MINDMAP_DATA_DIR='/it'\''s here' mindmap viewer --port 80`);
});
