// Routes of links between cards. A link to a collapsed node ends at the card that shows it.

import type { Link } from "../api/types";
import { type Measure, truncateText } from "./card";
import { type Box, GRID, growBox, uniteBoxes } from "./geometry";
import type { Layout } from "./layout";
import { type Position, findMiddle, Router } from "./router";

/** Shape of a route. `path` and `arrow` are SVG path data. */
export interface LinkGeometry {
  path: string;
  arrow: string;
  ends: [Position, Position];
  box: Box;
  /** Middle of the label. */
  labelPoint: Position;
  /** True if no place for the label is free, so that it shows only while the pointer is on the line. */
  isCrowded: boolean;
}

/** Route of the links with the same ends and style. `from` and `to` are the ids of the cards at its ends. */
export interface LinkRoute extends LinkGeometry {
  key: string;
  links: Link[];
  from: string;
  to: string;
  style: string;
  label: string;
}

/** What a pane shows: the positions of the cards and links of its part of the map. */
export interface Drawing {
  layout: Layout;
  routes: LinkRoute[];
  /** Everything that the routes depend on, as JSON. While it stays equal, the routes are reused. */
  routesKey: string;
  /** Node id -> id of the card that shows the node: its own card, or the card under which it is collapsed. */
  visibleIdOf: Map<string, string>;
}

const ARROW_LENGTH = 8;
const CORNER_RADIUS = 6;
const MAX_LABEL_WIDTH = 180;
const LABEL_HEIGHT = 16;
const LABEL_PADDING = 3;
// Width of the space around all cards in which links may run.
const MARGIN = 3 * GRID;

/** Returns the routes of the links between shown cards; links with the same ends and style share one route. */
export function routeLinks(links: Link[], layout: Layout, visibleIdOf: Map<string, string>, measure: Measure): LinkRoute[] {
  const groups = new Map<string, Pick<LinkRoute, "key" | "links" | "from" | "to" | "style">>();
  for (const link of links) {
    const [from, to] = [visibleIdOf.get(link.from), visibleIdOf.get(link.to)];
    const isInsideCard = from === to && link.from !== link.to; // between nodes that are collapsed under the same card
    if (!from || !to || isInsideCard) continue;
    const style = getLinkStyle(link);
    const key = `${from} ${to} ${style}`;
    const group = groups.get(key);
    if (group) group.links.push(link);
    else groups.set(key, { key, links: [link], from, to, style });
  }
  const ends = [...groups.values()].map((group) => ({ ...group, label: combineLabels(group.links, measure), boxes: [layout.cards.get(group.from)!, layout.cards.get(group.to)!] as const }));
  const geometries = routeBetween(ends, [...layout.cards.values()], growBox(layout.bounds, MARGIN), measure);
  return ends.map(({ boxes: _boxes, ...route }, index) => ({ ...route, ...geometries[index]! }));
}

export const getLinkStyle = ({ style }: Link): string => (style === "dashed" || style === "animated" ? style : "solid");

/** Routes lines between pairs of boxes around the obstacles, and places their labels. `step` and `margin`: as in `Router`. */
export function routeBetween(ends: { boxes: readonly [Box, Box]; label: string }[], obstacles: Box[], bounds: Box, measure: Measure, step = GRID, margin = 0): LinkGeometry[] {
  if (!ends.length) return [];
  const router = new Router(obstacles, bounds, step, margin);
  const routes = ends.map(({ boxes: [from, to] }) => (from === to ? null : router.findRoute(from, to)));
  return routes.map((route, index) => {
    const { boxes, label } = ends[index]!;
    if (boxes[0] === boxes[1]) return createLoop(boxes[0]);
    const labelBox = route && label ? router.placeLabel(route, measure(label) + 2 * LABEL_PADDING, LABEL_HEIGHT) : null;
    return createLine(route ?? createStraightLine(...boxes), labelBox);
  });
}

/** Returns the label of a route: the first label of its links and the number of other labels; without labels, the number of links. */
export function combineLabels(links: Link[], measure: Measure): string {
  const [first, ...rest] = [...new Set(links.map((link) => link.label).filter(Boolean))];
  if (!first) return links.length > 1 ? `${links.length} links` : "";
  const text = truncateText(first, MAX_LABEL_WIDTH, measure);
  return rest.length ? `${text} +${rest.length}` : text;
}

/** Returns a straight line between the facing sides of two boxes, for a link without a route. */
function createStraightLine(from: Box, to: Box): Position[] {
  const isRight = to.x + to.width / 2 >= from.x + from.width / 2;
  return [
    [isRight ? from.x + from.width : from.x, from.y + from.height / 2],
    [isRight ? to.x : to.x + to.width, to.y + to.height / 2],
  ];
}

function createLine(points: Position[], labelBox: Box | null): LinkGeometry {
  const [start, end] = [points[0]!, points.at(-1)!];
  const beforeEnd = points.at(-2)!;
  const direction = end[0] >= beforeEnd[0] ? 1 : -1;
  const line: Position[] = [...points.slice(0, -1), [end[0] - direction * ARROW_LENGTH, end[1]]];
  const labelPoint: Position = labelBox ? [labelBox.x + labelBox.width / 2, labelBox.y + labelBox.height / 2] : findMiddle(points);
  const box = points.map(([x, y]) => ({ x: x - 1, y: y - 1, width: 2, height: 2 })).reduce(uniteBoxes);
  return {
    path: buildRoundedPath(line),
    arrow: `M${round(end[0])} ${round(end[1])}l${-direction * ARROW_LENGTH} -4.5v9z`,
    ends: [start, end],
    box: labelBox ? uniteBoxes(box, labelBox) : box,
    labelPoint,
    isCrowded: !labelBox,
  };
}

/** Returns a path along the points, with rounded corners. */
function buildRoundedPath(points: Position[]): string {
  const parts = [`M${round(points[0]![0])} ${round(points[0]![1])}`];
  for (let index = 1; index < points.length - 1; index++) {
    const corner = points[index]!;
    const [into, out] = [points[index - 1]!, points[index + 1]!].map((other) => moveTowards(corner, other)) as [Position, Position];
    parts.push(`L${into.map(round).join(" ")}Q${corner.map(round).join(" ")} ${out.map(round).join(" ")}`);
  }
  parts.push(`L${points.at(-1)!.map(round).join(" ")}`);
  return parts.join("");
}

/** Returns the position towards another corner at which the curve around a corner begins: CORNER_RADIUS away, but at most halfway. */
function moveTowards([x1, y1]: Position, [x2, y2]: Position): Position {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const share = length ? Math.min(CORNER_RADIUS, length / 2) / length : 0;
  return [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
}

/** Returns the geometry of a link from a card to itself, at the card's left side. */
function createLoop(box: Box): LinkGeometry {
  const [x, y] = [box.x, box.y + box.height / 2];
  return {
    path: `M${round(x)} ${round(y - 6)}c-14 -10 -14 22 -8 12`,
    arrow: `M${round(x)} ${round(y + 6)}l-8 -4.5v9z`,
    ends: [
      [x, y - 6],
      [x, y + 6],
    ],
    box: { x: x - 16, y: y - 20, width: 16, height: 40 },
    labelPoint: [x, y],
    isCrowded: true,
  };
}

const round = (value: number): number => Math.round(value * 10) / 10;
