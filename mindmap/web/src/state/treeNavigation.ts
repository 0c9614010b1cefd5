// Arrow keys in the tree of a pane or in the outline, following the ARIA tree pattern.

import { type Branch, getTree, walkTree } from "../model/tree";
import { select, toggleCollapsed } from "./actions";
import { app, getCollapsed, isOutlineShown } from "./app";
import { collapseTree } from "./collapse";
import { getCurrentPane } from "./panes";

/** The tree that the arrow keys move through. */
interface VisibleTree {
  /** Visible rows of the outline, or cards of the pane, by node id in display order. */
  rows: Map<string, { branch: Branch; isCollapsed: boolean }>;
  /** Id of the row that shows the selected node: its own row, or the row of its collapsed ancestor. */
  current: string | undefined;
}

export function navigateTree(key: string): void {
  const { rows, current } = getVisibleTree();
  const ids = [...rows.keys()];
  const row = rows.get(current ?? "");
  if (!row) {
    selectIfPresent(ids[0]);
    return;
  }
  const { branch, isCollapsed } = row;
  if (key === "ArrowRight" && isCollapsed) toggleCollapsed(branch.id);
  else if (key === "ArrowRight") selectIfPresent(branch.children[0]?.id);
  else if (key === "ArrowLeft" && branch.parent && branch.children.length) toggleCollapsed(branch.id);
  else if (key === "ArrowLeft" && rows.has(branch.parent?.id ?? "")) selectIfPresent(branch.parent!.id);
  else {
    const index = ids.indexOf(branch.id);
    selectIfPresent(ids[{ ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: ids.length - 1 }[key] ?? index]);
  }
}

function getVisibleTree(): VisibleTree {
  const state = app.get();
  const selected = state.route.node ?? "";
  if (isOutlineShown(state) && state.map) {
    const { tree, hiddenCounts, visibleIdOf } = collapseTree(getTree(state.map), getCollapsed(state));
    const branches = [...walkTree(tree)].slice(1); // the outline has no row of the root
    return { rows: new Map(branches.map((branch) => [branch.id, { branch, isCollapsed: hiddenCounts.has(branch.id) }])), current: visibleIdOf.get(selected) };
  }
  const drawing = getCurrentPane()?.scene.currentDrawing;
  const cards = [...(drawing?.layout.cards ?? [])];
  return { rows: new Map(cards.map(([id, { branch, card }]) => [id, { branch, isCollapsed: card.isCollapsed }])), current: drawing?.visibleIdOf.get(selected) };
}

function selectIfPresent(id: string | undefined): void {
  if (id !== undefined) select(id, { expandsAncestors: isOutlineShown(app.get()), historyStep: "move" });
}
