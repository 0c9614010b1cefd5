// Input of a pane's renderer: the positions of cards and links.

import type { Layout } from "./layout";
import type { LinkRoute } from "./links";

export interface Drawing {
  layout: Layout;
  routes: LinkRoute[];
  /** Everything that the routes depend on, as one text. While it stays equal, they need not be computed again. */
  routesKey: string;
  /** Node id -> id of the card that shows the node: its own card, or the card under which it is collapsed. */
  visibleIdOf: Map<string, string>;
}
