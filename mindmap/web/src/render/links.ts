// SVG elements of links and branches.

import type { LinkRoute } from "../layout/links";
import { type Layout, type Box, type PlacedCard, intersects } from "../layout/layout";
import { createElement } from "./svg";

// Browsers compute dashes along a whole link, so longer links are drawn solid and thinner.
const LONG_LINK = 1_800;

export interface LinkElements {
  line: SVGGElement;
  /** Drawn above the cards, to be readable everywhere. */
  label: SVGTextElement | null;
}

/** Returns the tooltip of a route: one line for each of its links. */
export const tooltipOf = ({ links }: LinkRoute): string =>
  links.flatMap((link) => [link.label, link.notes].filter(Boolean).join(": ") || []).join("\n");

export function createLinkElements(route: LinkRoute): LinkElements {
  const [x, y] = route.middle;
  const notes = tooltipOf(route);
  const line = createElement(
    "g",
    { class: `link ${route.style}${Math.hypot(route.box.width, route.box.height) > LONG_LINK ? " long" : ""}`, "data-key": route.key },
    notes ? createElement("title", {}, notes) : null,
    createElement("path", { class: "run", d: route.path }),
    createElement("path", { class: "arrow", d: route.arrow }),
  );
  if (!route.label) return { line, label: null };
  return { line, label: createElement("text", { class: "link-label", x, y: y + 4, "text-anchor": route.anchor }, route.label) };
}

/** Returns the branches that cross a view as one SVG path. */
export function branchesPath(layout: Layout, view: Box | null): string {
  const parts: string[] = [];
  for (const placed of layout.cards.values()) {
    const parent = placed.branch.parent && layout.cards.get(placed.branch.parent.id);
    if (!parent?.branch.parent) continue; // children of the root have root connectors
    if (!view || intersects(boxBetween(parent, placed), view)) parts.push(branchPath(parent, placed));
  }
  for (const { path, box } of layout.rootConnectors) if (!view || intersects(box, view)) parts.push(path);
  return parts.join("");
}

function branchPath(from: PlacedCard, to: PlacedCard): string {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

const boxBetween = (from: PlacedCard, to: PlacedCard): Box => {
  const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y + from.height, to.y + to.height)];
  return { x: from.x + from.width, y: top, width: Math.max(to.x - from.x - from.width, 1), height: bottom - top };
};

// Browsers paint one path with hundreds of self-intersections more slowly than many short paths.
const LINKS_PER_PATH = 40;

/** Returns the links of the overview: straight lines, merged into a few paths. */
export function straightLinkPaths(routes: LinkRoute[]): string[] {
  const lines = routes.map(({ ends: [[x1, y1], [x2, y2]] }) => `M${Math.round(x1)} ${Math.round(y1)}L${Math.round(x2)} ${Math.round(y2)}`);
  return Array.from({ length: Math.ceil(lines.length / LINKS_PER_PATH) }, (_, part) =>
    lines.slice(part * LINKS_PER_PATH, (part + 1) * LINKS_PER_PATH).join(""),
  );
}
