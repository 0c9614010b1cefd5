// SVG elements of links, and paths of connectors (lines between parents and children).

import type { LinkRoute } from "../layout/links";
import { type Box, type Layout, intersects } from "../layout/layout";
import { createElement } from "./svg";

// In pixels at scale 1. Longer links are solid and thin, because browsers compute dashes along the whole link.
const LONG_LINK_LENGTH = 1_800;

export interface LinkElements {
  line: SVGGElement;
  /** Text that is drawn above the cards; null without a label. */
  label: SVGTextElement | null;
}

/** Returns the tooltip of a route: one line for each of its links. */
export const buildTooltip = ({ links }: LinkRoute): string =>
  links.map((link) => [link.label, link.notes].filter(Boolean).join(": ")).filter(Boolean).join("\n");

export function createLinkElements(route: LinkRoute): LinkElements {
  const [x, y] = route.labelPoint;
  const tooltip = buildTooltip(route);
  const line = createElement(
    "g",
    { class: `link ${route.style}${Math.hypot(route.box.width, route.box.height) > LONG_LINK_LENGTH ? " long" : ""}`, "data-key": route.key },
    tooltip ? createElement("title", {}, tooltip) : null,
    createElement("path", { class: "hit", d: route.path }), // wide invisible line for the pointer
    createElement("path", { class: "stroke", d: route.path }),
    createElement("path", { class: "arrow", d: route.arrow }),
  );
  if (!route.label) return { line, label: null };
  const label = createElement("text", { class: `link-label${route.isCrowded ? " crowded" : ""}`, x, y: y + 4, "text-anchor": "middle" }, route.label);
  for (const [event, isPointed] of [["pointerenter", true], ["pointerleave", false]] as const) {
    line.addEventListener(event, () => [line, label].forEach((part) => part.classList.toggle("pointed", isPointed)));
  }
  return { line, label };
}

/** Returns the connectors that cross a view as one SVG path; all of them if the view is null. */
export const buildConnectorsPath = ({ connectors }: Layout, view: Box | null): string =>
  connectors.flatMap(({ path, box }) => (!view || intersects(box, view) ? path : [])).join("");

// Browsers paint one path with hundreds of self-intersections more slowly than many short paths.
const LINKS_PER_PATH = 40;

/** Returns the links of the overview: straight lines, merged into a few paths. */
export function buildStraightLinkPaths(routes: LinkRoute[]): string[] {
  const lines = routes.map(({ ends: [[x1, y1], [x2, y2]] }) => `M${Math.round(x1)} ${Math.round(y1)}L${Math.round(x2)} ${Math.round(y2)}`);
  return Array.from({ length: Math.ceil(lines.length / LINKS_PER_PATH) }, (_, part) =>
    lines.slice(part * LINKS_PER_PATH, (part + 1) * LINKS_PER_PATH).join(""),
  );
}
