// Input of a pane's renderer: the positions of cards and links.

import type { Layout } from "./layout";
import type { LinkRoute } from "./links";

export interface Drawing {
  layout: Layout;
  routes: LinkRoute[];
  /** What the routes depend on: with an equal key, they need not be computed again. */
  routesKey: string;
  /** Node id -> id of the card that shows it: its own, or the one under which it is collapsed. */
  visibleIdOf: Map<string, string>;
}
