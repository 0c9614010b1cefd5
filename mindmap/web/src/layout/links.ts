// How a link runs: from card to card, or to the card under which an end is folded away.

import type { Link } from "../api/types";
import { type Box, type Layout, type Place, joined } from "./layout";

type Point = [number, number];

export interface Route {
  key: string;
  links: Link[];
  from: string;
  to: string;
  style: string;
  path: string;
  arrow: string;
  ends: [Point, Point];
  middle: [number, number];
  anchor: "start" | "middle";
  label: string;
  box: Box;
}

type Run = Pick<Route, "path" | "arrow" | "ends" | "middle" | "anchor" | "box">;

const ARROW = 8;
// A label is cut after so many letters, each about so wide.
const LABEL = 34;
const LETTER = 6.4;

/** The links that a pane can draw; those with the same ends and style, once. */
export function routed(links: Link[], layout: Layout, home: Map<string, string>): Route[] {
  const found = new Map<string, Route>();
  for (const link of links) {
    const [from, to] = [home.get(link.from), home.get(link.to)];
    const [start, end] = [layout.places.get(from ?? ""), layout.places.get(to ?? "")];
    if (!from || !to || !start || !end || (start === end && link.from !== link.to)) continue;
    const style = link.style === "dashed" || link.style === "animated" ? link.style : "solid";
    const key = `${from} ${to} ${style}`;
    const known = found.get(key);
    if (known) known.links.push(link);
    else found.set(key, { key, links: [link], from, to, style, label: "", ...drawn(start, end) });
  }
  for (const route of found.values()) {
    route.label = labelled(route.links);
    const [x, y] = route.middle;
    if (route.anchor === "start") route.box = joined(route.box, { x, y: y - 8, width: route.label.length * LETTER, height: 16 });
  }
  return [...found.values()];
}

function labelled(links: Link[]): string {
  const [first, ...rest] = [...new Set(links.map((link) => link.label).filter(Boolean))];
  if (!first) return links.length > 1 ? `${links.length} links` : "";
  const text = first.length > LABEL ? `${first.slice(0, LABEL - 1)}…` : first;
  return rest.length ? `${text} +${rest.length}` : text;
}

function drawn(from: Place, to: Place): Run {
  if (from === to) return loop(from);
  const beside = to.x > from.x + from.width ? 1 : to.x + to.width < from.x ? -1 : 0;
  return beside ? across(from, to, beside) : along(from, to);
}

/** To another column: out of one side and into the other. */
function across(from: Box, to: Box, way: 1 | -1): Run {
  const [x1, x2] = way > 0 ? [from.x + from.width, to.x] : [from.x, to.x + to.width];
  const [y1, y2] = [from.y + from.height * 0.28, to.y + to.height * 0.72];
  const swing = way * Math.max(Math.abs(x2 - x1) / 2, 40);
  return curve([x1, y1], [x1 + swing, y1], [x2 - swing, y2], [x2, y2], way, "middle");
}

/** Within a column: out to the right and back where nothing branches off there, else to the left. */
function along(from: Place, to: Place): Run {
  const side = from.branch.children.length || to.branch.children.length ? -1 : 1;
  const edge = (box: Box): number => (side > 0 ? box.x + box.width : box.x);
  const [y1, y2] = [from.y + from.height * 0.6, to.y + to.height * 0.4];
  const swing = side * (30 + Math.min(Math.abs(y2 - y1) / 6, 70));
  const [x1, x2] = [edge(from), edge(to)];
  const out = side > 0 ? Math.max(x1, x2) : Math.min(x1, x2);
  return curve([x1, y1], [out + swing, y1], [out + swing, y2], [x2, y2], side > 0 ? -1 : 1, side > 0 ? "start" : "middle");
}

/** `into` is the way in which the arrow points. */
function curve(a: Point, b: Point, c: Point, d: Point, into: 1 | -1, anchor: Run["anchor"]): Run {
  const tip = d[0] - into * 2;
  const middle: Point = [(a[0] + 3 * b[0] + 3 * c[0] + d[0]) / 8 + (anchor === "start" ? 6 : 0), (a[1] + d[1]) / 2];
  return {
    path: `M${r(a[0])} ${r(a[1])}C${r(b[0])} ${r(b[1])} ${r(c[0])} ${r(c[1])} ${r(tip - into * ARROW)} ${r(d[1])}`,
    arrow: `M${r(tip)} ${r(d[1])}l${-into * ARROW} -4.5v9z`,
    ends: [a, d],
    middle,
    anchor,
    box: joined(box2(a[0], a[1], d[0], d[1]), box2(middle[0], middle[1], middle[0], middle[1])),
  };
}

function loop(box: Box): Run {
  const [x, y] = [box.x, box.y + box.height / 2];
  return {
    path: `M${r(x)} ${r(y - 8)}c-40 -24 -40 40 -10 16`,
    arrow: `M${r(x - 2)} ${r(y + 8)}l-8 -4.5v9z`,
    ends: [
      [x, y - 8],
      [x, y + 8],
    ],
    middle: [x - 34, y],
    anchor: "middle",
    box: { x: x - 60, y: y - 40, width: 60, height: 80 },
  };
}

const box2 = (x1: number, y1: number, x2: number, y2: number): Box => ({
  x: Math.min(x1, x2) - 12,
  y: Math.min(y1, y2) - 12,
  width: Math.abs(x2 - x1) + 24,
  height: Math.abs(y2 - y1) + 24,
});

const r = (value: number): number => Math.round(value * 10) / 10;
