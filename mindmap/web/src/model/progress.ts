// How far each part of a map has come: tasks under a node, the node itself included.

import type { Mindmap } from "../api/types";
import { grown, isTask, walked } from "./tree";

export interface Progress {
  done: number;
  active: number;
  blocked: number;
  total: number;
}

/** For every node what is done of the tasks under it, itself not counted; the root has the whole map's. */
export function progressUnder(map: Mindmap): Map<string, Progress> {
  const found = new Map<string, Progress>();
  const order = [...walked(grown(map))];
  for (const { id } of order) found.set(id, { done: 0, active: 0, blocked: 0, total: 0 });
  for (const branch of order.reverse()) {
    const over = branch.parent && found.get(branch.parent.id);
    if (!over) continue;
    const under = found.get(branch.id)!;
    over.done += under.done;
    over.active += under.active;
    over.blocked += under.blocked;
    over.total += under.total;
    if (isTask(branch.node)) counted(over, branch.node.status);
  }
  return found;
}

function counted(progress: Progress, status: string | undefined): void {
  progress.total += 1;
  if (status === "completed") progress.done += 1;
  else if (status === "in_progress") progress.active += 1;
  else if (status === "blocked") progress.blocked += 1;
}

export const percent = ({ done, total }: Progress): number => (total ? Math.floor((100 * done) / total) : 0);

/** The task in progress that was updated last; of several updated at once the last. */
export function activeTask(map: Mindmap): string | null {
  let best: [string, string] | null = null;
  const logged = new Map<string, string>();
  for (const entry of map.activityLog) {
    if (entry.nodeId && !logged.has(entry.nodeId)) logged.set(entry.nodeId, entry.timestamp);
  }
  for (const node of Object.values(map.nodes)) {
    if (!isTask(node) || node.status !== "in_progress") continue;
    const moment = node.updatedAt ?? logged.get(node.id) ?? "";
    if (!best || moment >= best[0]) best = [moment, node.id];
  }
  return best?.[1] ?? null;
}
