import assert from "node:assert/strict";
import { test } from "node:test";
import { parseListedIds } from "../src/panels/messages";

test("ids are read from the hint of an unknown map, and words of other hints are no ids", () => {
  assert.deepEqual(parseListedIds("Existing mindmaps: plan-1."), ["plan-1"]);
  assert.deepEqual(parseListedIds("Existing mindmaps: plan-1, map, and and 1,200 more."), ["plan-1", "map", "and"]);
  assert.deepEqual(parseListedIds("Repair that file and rename it to map.json, or create a new mindmap."), []);
});
