// Routes of links between cards. A collapsed end is replaced by the card that shows it.

import type { Link } from "../api/types";
import { type Box, type Layout, type PlacedCard, uniteBoxes } from "./layout";

type Point = [number, number];

export interface LinkRoute {
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

type LinkGeometry = Pick<LinkRoute, "path" | "arrow" | "ends" | "middle" | "anchor" | "box">;

const ARROW_LENGTH = 8;
// Maximum length of a label, and the approximate width of a character.
const MAX_LABEL_LENGTH = 34;
const LETTER_WIDTH = 6.4;

/** Returns the routes of the links between shown cards; links with the same ends and style share one route. */
export function routeLinks(links: Link[], layout: Layout, visibleIdOf: Map<string, string>): LinkRoute[] {
  const routes = new Map<string, LinkRoute>();
  for (const link of links) {
    const [from, to] = [visibleIdOf.get(link.from), visibleIdOf.get(link.to)];
    const [start, end] = [layout.cards.get(from ?? ""), layout.cards.get(to ?? "")];
    if (!from || !to || !start || !end || (start === end && link.from !== link.to)) continue;
    const style = link.style === "dashed" || link.style === "animated" ? link.style : "solid";
    const key = `${from} ${to} ${style}`;
    const route = routes.get(key);
    if (route) route.links.push(link);
    else routes.set(key, { key, links: [link], from, to, style, label: "", ...routeLink(start, end) });
  }
  for (const route of routes.values()) {
    route.label = combineLabels(route.links);
    const [x, y] = route.middle;
    if (route.anchor === "start") route.box = uniteBoxes(route.box, { x, y: y - 8, width: route.label.length * LETTER_WIDTH, height: 16 });
  }
  return [...routes.values()];
}

function combineLabels(links: Link[]): string {
  const [first, ...rest] = [...new Set(links.map((link) => link.label).filter(Boolean))];
  if (!first) return links.length > 1 ? `${links.length} links` : "";
  const text = first.length > MAX_LABEL_LENGTH ? `${first.slice(0, MAX_LABEL_LENGTH - 1)}…` : first;
  return rest.length ? `${text} +${rest.length}` : text;
}

function routeLink(from: PlacedCard, to: PlacedCard): LinkGeometry {
  if (from === to) return createLoop(from);
  const direction = to.x > from.x + from.width ? 1 : to.x + to.width < from.x ? -1 : 0;
  return direction ? routeAcrossColumns(from, to, direction) : routeWithinColumn(from, to);
}

/** Curve to another column: out of one side and into the other. */
function routeAcrossColumns(from: Box, to: Box, direction: 1 | -1): LinkGeometry {
  const [x1, x2] = direction > 0 ? [from.x + from.width, to.x] : [from.x, to.x + to.width];
  const [y1, y2] = [from.y + from.height * 0.28, to.y + to.height * 0.72];
  const swing = direction * Math.max(Math.abs(x2 - x1) / 2, 40);
  return createCurve([x1, y1], [x1 + swing, y1], [x2 - swing, y2], [x2, y2], direction, "middle");
}

/** Curve within a column: on the right if neither card has children, else on the left. */
function routeWithinColumn(from: PlacedCard, to: PlacedCard): LinkGeometry {
  const side = from.branch.children.length || to.branch.children.length ? -1 : 1;
  const edge = (box: Box): number => (side > 0 ? box.x + box.width : box.x);
  const [y1, y2] = [from.y + from.height * 0.6, to.y + to.height * 0.4];
  const swing = side * (30 + Math.min(Math.abs(y2 - y1) / 6, 70));
  const [x1, x2] = [edge(from), edge(to)];
  const outermost = side > 0 ? Math.max(x1, x2) : Math.min(x1, x2);
  return createCurve([x1, y1], [outermost + swing, y1], [outermost + swing, y2], [x2, y2], side > 0 ? -1 : 1, side > 0 ? "start" : "middle");
}

/** Bezier curve; the arrow points to the right if `arrowDirection` is 1, else to the left. */
function createCurve(a: Point, b: Point, c: Point, d: Point, arrowDirection: 1 | -1, anchor: LinkGeometry["anchor"]): LinkGeometry {
  const tip = d[0] - arrowDirection * 2;
  const middle: Point = [(a[0] + 3 * b[0] + 3 * c[0] + d[0]) / 8 + (anchor === "start" ? 6 : 0), (a[1] + d[1]) / 2];
  return {
    path: `M${round(a[0])} ${round(a[1])}C${round(b[0])} ${round(b[1])} ${round(c[0])} ${round(c[1])} ${round(tip - arrowDirection * ARROW_LENGTH)} ${round(d[1])}`,
    arrow: `M${round(tip)} ${round(d[1])}l${-arrowDirection * ARROW_LENGTH} -4.5v9z`,
    ends: [a, d],
    middle,
    anchor,
    box: uniteBoxes(createBoxAround(a[0], a[1], d[0], d[1]), createBoxAround(middle[0], middle[1], middle[0], middle[1])),
  };
}

function createLoop(box: Box): LinkGeometry {
  const [x, y] = [box.x, box.y + box.height / 2];
  return {
    path: `M${round(x)} ${round(y - 8)}c-40 -24 -40 40 -10 16`,
    arrow: `M${round(x - 2)} ${round(y + 8)}l-8 -4.5v9z`,
    ends: [
      [x, y - 8],
      [x, y + 8],
    ],
    middle: [x - 34, y],
    anchor: "middle",
    box: { x: x - 60, y: y - 40, width: 60, height: 80 },
  };
}

const createBoxAround = (x1: number, y1: number, x2: number, y2: number): Box => ({
  x: Math.min(x1, x2) - 12,
  y: Math.min(y1, y2) - 12,
  width: Math.abs(x2 - x1) + 24,
  height: Math.abs(y2 - y1) + 24,
});

const round = (value: number): number => Math.round(value * 10) / 10;
