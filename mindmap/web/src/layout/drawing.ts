// A part of a map, laid out: all that a pane draws.

import type { Layout } from "./layout";
import type { Route } from "./links";

export interface Drawing {
  layout: Layout;
  routes: Route[];
  /** Node -> the card that shows it: its own, or the one that it is folded away under. */
  home: Map<string, string>;
}
