// Which branches are folded: at first as many are open as a person takes in at once, the work in hand among them.

import type { Mindmap } from "../api/types";
import { activeTask } from "../model/progress";
import { type Branch, ancestors, grown } from "../model/tree";
import { ROOT } from "../model/vocabulary";

// Cards that fit a window at a size to be read.
const FIRST_SHOWN = 40;
const GOING_ON = new Set(["in_progress", "blocked"]);

/** Everything open on a small map; on a large one level after level, and the way to what is at work. */
export function folded(map: Mindmap): Set<string> {
  const branches = Object.values(map.nodes).filter((node) => node.children.length);
  if (Object.keys(map.nodes).length <= FIRST_SHOWN) return new Set();
  const open = new Set([ROOT]);
  let shown = map.nodes[ROOT]!.children.length;
  for (const id of [activeTask(map) ?? ROOT, ...atWork(map), ...byLevels(map)]) {
    const way = [map.nodes[id]!, ...ancestors(map, id)].filter((node) => !open.has(node.id));
    const more = way.reduce((sum, node) => sum + node.children.length, 0);
    if (shown + more > FIRST_SHOWN) continue;
    for (const node of way) open.add(node.id);
    shown += more;
  }
  return new Set(branches.map((node) => node.id).filter((id) => !open.has(id)));
}

const atWork = (map: Mindmap): string[] =>
  Object.values(map.nodes)
    .filter((node) => GOING_ON.has(node.status ?? ""))
    .map((node) => node.id);

function byLevels(map: Mindmap): string[] {
  const order: string[] = [];
  for (let level = [grown(map)]; level.length; level = level.flatMap((branch) => branch.children)) {
    order.push(...level.map((branch) => branch.id));
  }
  return order;
}

/** A branch with what is folded away taken off; `hidden` counts it. */
export function unfolded(root: Branch, collapsed: ReadonlySet<string>): { tree: Branch; hidden: Map<string, number>; home: Map<string, string> } {
  const hidden = new Map<string, number>();
  const home = new Map<string, string>();
  const tree: Branch = { ...root, children: [], parent: null };
  const open: { from: Branch; to: Branch | null; shown: string }[] = [{ from: root, to: tree, shown: root.id }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { from, to, shown } = next;
    home.set(from.id, shown);
    if (!to) hidden.set(shown, (hidden.get(shown) ?? 0) + 1);
    const closed = !to || collapsed.has(from.id);
    const children = from.children.map((child) => (closed ? null : { ...child, children: [], parent: to }));
    if (!closed) to.children.push(...(children as Branch[]));
    for (let place = from.children.length - 1; place >= 0; place--) {
      const child = from.children[place]!;
      open.push({ from: child, to: children[place]!, shown: closed ? shown : child.id });
    }
  }
  return { tree, hidden, home };
}
