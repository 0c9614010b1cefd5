// Task progress of a map and its parts, and the questions that wait for the user.

import type { MapNode, Mindmap, Question } from "../api/types";
import { getTree, isTask, memoizeByObject, walkTree } from "./tree";

/** Numbers of tasks by status. `active` tasks are in progress; `total` includes planned tasks. */
export interface Progress {
  done: number;
  active: number;
  blocked: number;
  total: number;
}

/** Counts the tasks below every node, without the node itself; by node id. Cached for each map. */
export const computeProgress: (map: Mindmap) => ReadonlyMap<string, Progress> = memoizeByObject((map) => {
  const progressById = new Map<string, Progress>();
  const order = [...walkTree(getTree(map))];
  for (const { id } of order) progressById.set(id, { done: 0, active: 0, blocked: 0, total: 0 });
  for (const branch of order.reverse()) {
    const parentProgress = branch.parent && progressById.get(branch.parent.id);
    if (!parentProgress) continue;
    const progress = progressById.get(branch.id)!;
    parentProgress.done += progress.done;
    parentProgress.active += progress.active;
    parentProgress.blocked += progress.blocked;
    parentProgress.total += progress.total;
    if (isTask(branch.node)) countTask(parentProgress, branch.node.status);
  }
  return progressById;
});

function countTask(progress: Progress, status: string | undefined): void {
  progress.total += 1;
  if (status === "completed") progress.done += 1;
  else if (status === "in_progress") progress.active += 1;
  else if (status === "blocked") progress.blocked += 1;
}

export const isDone = ({ done, total }: Pick<Progress, "done" | "total">): boolean => total > 0 && done === total;
export const computePercent = ({ done, total }: Pick<Progress, "done" | "total">): number => (total ? Math.floor((100 * done) / total) : 0);

/** Returns the id of the task in progress that was updated last; null if no task is in progress. Cached for each map. */
export const findActiveTask: (map: Mindmap) => string | null = memoizeByObject((map) => {
  let latest: { id: string; updatedAt: string } | null = null;
  const logTimes = new Map<string, string>();
  for (const entry of map.activityLog) {
    if (entry.nodeId && !logTimes.has(entry.nodeId)) logTimes.set(entry.nodeId, entry.timestamp);
  }
  for (const node of Object.values(map.nodes)) {
    if (node.status !== "in_progress" || !isTask(node)) continue;
    const updatedAt = node.updatedAt ?? logTimes.get(node.id) ?? "";
    if (!latest || updatedAt >= latest.updatedAt) latest = { id: node.id, updatedAt };
  }
  return latest?.id ?? null;
});

export const listOpenQuestionsOfNode = (node: MapNode): Question[] => (node.questions ?? []).filter(({ answer }) => answer === undefined);

/** Returns the questions of a map without an answer, oldest first, each with its node. */
export const listOpenQuestions = (map: Mindmap): { node: MapNode; question: Question }[] =>
  Object.values(map.nodes)
    .filter(({ questions }) => questions)
    .flatMap((node) => listOpenQuestionsOfNode(node).map((question) => ({ node, question })))
    .sort((a, b) => (a.question.askedAt < b.question.askedAt ? -1 : 1));
