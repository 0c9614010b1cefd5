// Links and branches as they are drawn.

import type { Route } from "../layout/links";
import { type Layout, type Box, type Place, meets } from "../layout/layout";
import { element } from "./svg";

// Dashes are worked out along a whole link, however little of it is in view: a longer one is drawn solid, and thinner.
const LONG = 1_800;

export interface DrawnLink {
  run: SVGGElement;
  /** Drawn above the cards, so that it can be read wherever it is. */
  label: SVGTextElement | null;
}

/** What is said when a link is pointed at: of each that runs there a line. */
export const notesOf = ({ links }: Route): string =>
  links.flatMap((link) => [link.label, link.notes].filter(Boolean).join(": ") || []).join("\n");

export function drawnLink(route: Route): DrawnLink {
  const [x, y] = route.middle;
  const notes = notesOf(route);
  const run = element(
    "g",
    { class: `link ${route.style}${Math.hypot(route.box.width, route.box.height) > LONG ? " long" : ""}`, "data-key": route.key },
    notes ? element("title", {}, notes) : null,
    element("path", { class: "run", d: route.path }),
    element("path", { class: "arrow", d: route.arrow }),
  );
  if (!route.label) return { run, label: null };
  return { run, label: element("text", { class: "link-label", x, y: y + 4, "text-anchor": route.anchor }, route.label) };
}

/** The branches that pass through a view, as one path. */
export function branches(layout: Layout, view: Box | null): string {
  const parts: string[] = [];
  for (const place of layout.places.values()) {
    const over = place.branch.parent && layout.places.get(place.branch.parent.id);
    if (!over?.branch.parent) continue; // what hangs under the root hangs on a trunk
    if (!view || meets(between(over, place), view)) parts.push(branch(over, place));
  }
  for (const { path, box } of layout.trunks) if (!view || meets(box, view)) parts.push(path);
  return parts.join("");
}

function branch(from: Place, to: Place): string {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

const between = (from: Place, to: Place): Box => {
  const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y + from.height, to.y + to.height)];
  return { x: from.x + from.width, y: top, width: Math.max(to.x - from.x - from.width, 1), height: bottom - top };
};


// A path that crosses itself hundreds of times takes longer to fill than as many short ones.
const TOGETHER = 40;

/** Links from afar: solid, straight, merged. */
export function roughLinks(routes: Route[]): string[] {
  const lines = routes.map(({ ends: [[x1, y1], [x2, y2]] }) => `M${Math.round(x1)} ${Math.round(y1)}L${Math.round(x2)} ${Math.round(y2)}`);
  return Array.from({ length: Math.ceil(lines.length / TOGETHER) }, (_, part) =>
    lines.slice(part * TOGETHER, (part + 1) * TOGETHER).join(""),
  );
}
