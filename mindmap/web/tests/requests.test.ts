import assert from "node:assert/strict";
import { test } from "node:test";
import { addComment, answerQuestion, refresh } from "../src/state/actions";
import { app } from "../src/state/app";
import { answerWith, createMapWithBranches } from "./page";

test("a viewer that stops before or during its answer counts as offline, but an error of the page itself is thrown", async () => {
  const createBrokenBody = (): ReadableStream => new ReadableStream({ start: (controller) => controller.error(new TypeError("network error")) });
  for (const fetch of [() => Promise.reject(new TypeError("Failed to fetch")), () => Promise.resolve(new Response(createBrokenBody()))]) {
    app.set({ failure: null });
    answerWith(fetch);
    await refresh();
    assert.equal(app.get().failure?.status, 0);
  }
  answerWith(() => Promise.reject(new RangeError("a fault")));
  await assert.rejects(refresh(), RangeError);
});

test("the page of a deleted map loads the other maps; a failed request leaves them out, but an error of the page itself is thrown", async () => {
  const respondNotFound = (): Promise<Response> => Promise.resolve(new Response(JSON.stringify({ error: { code: "no_such_mindmap", message: "Map not found.", hint: "" } }), { status: 404 }));
  answerWith((path) => (path === "/api/mindmaps" ? Promise.reject(new TypeError("Failed to fetch")) : respondNotFound()));
  await refresh();
  assert.deepEqual([app.get().failure?.message, app.get().sessions], ["Map not found.", null]);
  answerWith((path) => (path === "/api/mindmaps" ? Promise.reject(new RangeError("a fault")) : respondNotFound()));
  await assert.rejects(refresh(), RangeError);
});

test("an answer is sent to the server, the page shows the map that the server returns, and a notice shows an error", async () => {
  const requests: string[] = [];
  const answeredMap = createMapWithBranches("2");
  answeredMap.nodes["p1a"]!.questions = [{ id: "q1", text: "Which?", askedAt: "1", answer: "This" }];
  const respondWith = (body: object, status: number): void => void Object.assign(globalThis, { fetch: (path: string, { body: sent }: { body: string }) => (requests.push(`${path} ${sent}`), Promise.resolve(new Response(JSON.stringify(body), { status }))) });
  respondWith({ mindmap: answeredMap }, 200);
  assert.equal(await answerQuestion("q1", "This"), true);
  assert.equal(app.get().map!.nodes["p1a"]!.questions![0]!.answer, "This");
  respondWith({ error: { message: "The question has an answer.", hint: "Comment on it." } }, 409);
  assert.equal(await addComment("p1a", "Late"), false);
  assert.equal(app.get().notice!.text, "The question has an answer. Comment on it.");
  assert.deepEqual(requests, ['/api/answer {"mindmapId":"mm_1","questionId":"q1","answer":"This"}', '/api/comment {"mindmapId":"mm_1","nodeId":"p1a","text":"Late"}']);
});
