// Through the tree by arrows, as trees are gone through: up and down along what is open, in and out of branches.

import { app } from "./app";
import { select, toggle } from "./actions";
import { current } from "./panes";

export function arrow(key: string): void {
  const shown = current();
  const layout = shown?.scene.layout;
  const { route } = app.get();
  if (!layout || !shown) return;
  const place = route.node ? shown.scene.placeOf(route.node) : null;
  if (!place) {
    select("root", false);
    return;
  }
  const { branch, card } = place;
  if (key === "ArrowRight" && card.folded) toggle(branch.id);
  else if (key === "ArrowRight") go(branch.children[0]?.id);
  else if (key === "ArrowLeft" && card.foldable && !card.folded && branch.parent && !branch.children.length) toggle(branch.id);
  else if (key === "ArrowLeft") go(branch.parent?.id);
  else {
    const order = [...layout.places.keys()];
    const at = order.indexOf(branch.id);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: order.length - 1 }[key];
    go(order[to ?? at]);
  }
}

const go = (id: string | undefined): void => {
  if (id !== undefined) select(id, false);
};
