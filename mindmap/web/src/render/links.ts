// SVG elements of links and branches.

import type { LinkRoute } from "../layout/links";
import { type Layout, type Box, type PlacedCard, intersects } from "../layout/layout";
import { createElement } from "./svg";

// Pixels at scale 1. Browsers compute dashes along the whole link, so longer links are solid and thin.
const LONG_LINK_LENGTH = 1_800;

export interface LinkElements {
  line: SVGGElement;
  /** Text that is drawn above the cards, to be readable everywhere; null without a label. */
  label: SVGTextElement | null;
}

/** Returns the tooltip of a route: one line for each of its links. */
export const buildTooltip = ({ links }: LinkRoute): string =>
  links.flatMap((link) => [link.label, link.notes].filter(Boolean).join(": ") || []).join("\n");

export function createLinkElements(route: LinkRoute): LinkElements {
  const [x, y] = route.middle;
  const notes = buildTooltip(route);
  const line = createElement(
    "g",
    { class: `link ${route.style}${Math.hypot(route.box.width, route.box.height) > LONG_LINK_LENGTH ? " long" : ""}`, "data-key": route.key },
    notes ? createElement("title", {}, notes) : null,
    createElement("path", { class: "run", d: route.path }),
    createElement("path", { class: "arrow", d: route.arrow }),
  );
  if (!route.label) return { line, label: null };
  return { line, label: createElement("text", { class: "link-label", x, y: y + 4, "text-anchor": route.anchor }, route.label) };
}

/** Returns the lines between parents and children that cross a view as one SVG path; all lines if it is null. */
export function buildBranchesPath(layout: Layout, view: Box | null): string {
  const parts: string[] = [];
  for (const placedCard of layout.cards.values()) {
    const parent = placedCard.branch.parent && layout.cards.get(placedCard.branch.parent.id);
    if (!parent?.branch.parent) continue; // children of the root have root connectors
    if (!view || intersects(createBoxBetween(parent, placedCard), view)) parts.push(buildBranchPath(parent, placedCard));
  }
  for (const { path, box } of layout.rootConnectors) if (!view || intersects(box, view)) parts.push(path);
  return parts.join("");
}

function buildBranchPath(from: PlacedCard, to: PlacedCard): string {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

const createBoxBetween = (from: PlacedCard, to: PlacedCard): Box => {
  const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y + from.height, to.y + to.height)];
  return { x: from.x + from.width, y: top, width: Math.max(to.x - from.x - from.width, 1), height: bottom - top };
};

// Browsers paint one path with hundreds of self-intersections more slowly than many short paths.
const LINKS_PER_PATH = 40;

/** Returns the links of the overview: straight lines, merged into a few paths. */
export function buildStraightLinkPaths(routes: LinkRoute[]): string[] {
  const lines = routes.map(({ ends: [[x1, y1], [x2, y2]] }) => `M${Math.round(x1)} ${Math.round(y1)}L${Math.round(x2)} ${Math.round(y2)}`);
  return Array.from({ length: Math.ceil(lines.length / LINKS_PER_PATH) }, (_, part) =>
    lines.slice(part * LINKS_PER_PATH, (part + 1) * LINKS_PER_PATH).join(""),
  );
}
