// Arrow keys in the tree, following the ARIA tree pattern.

import { app } from "./app";
import { select, toggleCollapsed } from "./actions";
import { getCurrentPane } from "./panes";

export function navigateTree(key: string): void {
  const pane = getCurrentPane();
  const layout = pane?.scene.layout;
  const { route } = app.get();
  if (!layout || !pane) return;
  const placedCard = route.node ? pane.scene.findCard(route.node) : null;
  if (!placedCard) {
    select("root", false);
    return;
  }
  const { branch, card } = placedCard;
  if (key === "ArrowRight" && card.isCollapsed) toggleCollapsed(branch.id);
  else if (key === "ArrowRight") selectIfPresent(branch.children[0]?.id);
  else if (key === "ArrowLeft" && card.isCollapsible && !card.isCollapsed && branch.parent && !branch.children.length) toggleCollapsed(branch.id);
  else if (key === "ArrowLeft") selectIfPresent(branch.parent?.id);
  else {
    const order = [...layout.cards.keys()];
    const index = order.indexOf(branch.id);
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: order.length - 1 }[key];
    selectIfPresent(order[target ?? index]);
  }
}

const selectIfPresent = (id: string | undefined): void => {
  if (id !== undefined) select(id, false);
};
