// Where each card stands: the root on top, the branches below it in as many columns as suit the window, each a tree
// that grows to the right.

import type { Branch } from "../model/tree";
import { walked } from "../model/tree";
import type { Card } from "./card";
import { corners } from "./shape";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Place extends Box {
  branch: Branch;
  card: Card;
  /** The room of all that is under it, itself included. */
  area: Box;
}

export interface Layout {
  places: Map<string, Place>;
  bounds: Box;
  columns: number;
  /** Lines from the root to the heads of columns, as paths. */
  trunks: { path: string; box: Box }[];
}

const GAP = { columns: 84, lane: 52, blocks: 36 } as const;
// How much better another number of columns must suit before what a person knows is moved.
const LOYALTY = 0.35;

/** One tree by itself, its bounds beginning at 0, 0. */
function block(root: Branch, cards: Map<string, Card>): { places: Map<string, Place>; bounds: Box } {
  const order = [...walked(root)];
  const points = corners(order, cards);
  const places = new Map<string, Place>();
  order.forEach((branch, at) => {
    const card = cards.get(branch.id)!;
    const box = { ...points[at]!, width: card.width, height: card.height };
    places.set(branch.id, { ...box, branch, card, area: { ...box } });
  });
  for (const branch of order.reverse()) {
    const over = branch !== root && places.get(branch.parent!.id);
    if (over) over.area = joined(over.area, places.get(branch.id)!.area);
  }
  return { places, bounds: { ...places.get(root.id)!.area } };
}

export function laidOut(root: Branch, cards: Map<string, Card>, aspect: number, before?: Layout): Layout {
  const blocks = root.children.map((child) => block(child, cards));
  const columns = divided(blocks.map((one) => one.bounds), aspect, before?.columns ?? 0);
  const card = cards.get(root.id)!;
  const head: Box = { x: 0, y: 0, width: card.width, height: card.height };
  const places = new Map<string, Place>([[root.id, { ...head, branch: root, card, area: { ...head } }]]);
  const trunks: Layout["trunks"] = [];
  let x = GAP.columns / 2;
  for (const column of columns) {
    let y = card.height + (columns.length > 1 ? GAP.lane : GAP.blocks / 1.5);
    for (const number of column) {
      const { places: inside, bounds } = blocks[number]!;
      for (const [id, place] of inside) places.set(id, shifted(place, x, y));
      trunks.push(trunk(head, x, places.get(root.children[number]!.id)!));
      y += bounds.height + GAP.blocks;
    }
    x += Math.max(...column.map((number) => blocks[number]!.bounds.width)) + GAP.columns;
  }
  const bounds = [...places.values()].reduce((all, place) => joined(all, place), head);
  places.get(root.id)!.area = bounds;
  return { places, bounds, columns: columns.length, trunks };
}

/** Which blocks go into which column, in their order, for a shape nearest to the window's. */
function divided(sizes: Box[], aspect: number, before: number): number[][] {
  let best: { columns: number[][]; off: number } | null = null;
  for (let count = 1; count <= Math.min(sizes.length, 64); count++) {
    const columns = filled(sizes, count);
    const height = Math.max(...columns.map((column) => column.reduce((sum, one) => sum + sizes[one]!.height + GAP.blocks, 0)));
    const width = columns.reduce((sum, column) => sum + Math.max(...column.map((one) => sizes[one]!.width)) + GAP.columns, 0);
    const off = Math.abs(Math.log(width / height / aspect)) - (columns.length === before ? LOYALTY : 0);
    if (!best || off < best.off) best = { columns, off };
  }
  return best?.columns ?? [];
}

/** So many columns at most, each as tall as what is left divides into. */
function filled(sizes: Box[], count: number): number[][] {
  let left = sizes.reduce((sum, size) => sum + size.height + GAP.blocks, 0);
  const columns: number[][] = [[]];
  let height = 0;
  sizes.forEach((size, number) => {
    const target = (left + height) / (count - columns.length + 1);
    if (columns.at(-1)!.length && columns.length < count && height + size.height / 2 > target) {
      columns.push([]);
      height = 0;
    }
    columns.at(-1)!.push(number);
    height += size.height + GAP.blocks;
    left -= size.height + GAP.blocks;
  });
  return columns;
}

const shifted = (place: Place, x: number, y: number): Place => ({
  ...place,
  x: place.x + x,
  y: place.y + y,
  area: { ...place.area, x: place.area.x + x, y: place.area.y + y },
});

// Down from the root, along above the columns, down beside one, and into the head of a block.
function trunk(head: Box, x: number, to: Box): { path: string; box: Box } {
  const from = GAP.columns / 4;
  const lane = head.y + head.height + GAP.lane / 2;
  const side = x - GAP.columns / 4;
  const y = to.y + to.height / 2;
  const across = side > from ? `V${lane - 8}Q${from} ${lane} ${from + 8} ${lane}H${side - 8}Q${side} ${lane} ${side} ${lane + 8}` : "";
  const path = `M${from} ${head.y + head.height}${across}V${y - 8}Q${side} ${y} ${side + 8} ${y}H${to.x}`;
  return { path, box: { x: 0, y: head.y, width: to.x, height: y } };
}

export function joined(one: Box, other: Box): Box {
  const x = Math.min(one.x, other.x);
  const y = Math.min(one.y, other.y);
  return {
    x,
    y,
    width: Math.max(one.x + one.width, other.x + other.width) - x,
    height: Math.max(one.y + one.height, other.y + other.height) - y,
  };
}

export const meets = (one: Box, other: Box): boolean =>
  one.x < other.x + other.width &&
  other.x < one.x + one.width &&
  one.y < other.y + other.height &&
  other.y < one.y + one.height;
