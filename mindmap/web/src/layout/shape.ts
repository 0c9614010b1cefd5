// Where the cards of one tree stand, by its shape alone. Working that out takes a tenth of a millisecond a card, and
// at most writes no tree but one has another shape than before: so each shape is worked out once.

import { flextree } from "d3-flextree";
import type { Branch } from "../model/tree";
import type { Card } from "./card";

const GAP = { beside: 12, cousins: 22, levels: 56 } as const;
// A few megabytes. Shapes that are still there come back at the next drawing.
const MOST_KNOWN = 4_000;

export interface Point {
  x: number;
  y: number;
}

interface Flex {
  over: Flex | null;
  size: [number, number];
  children: Flex[];
  x: number;
  y: number;
}

const known = new Map<string, Point[]>();

/** The upper left corners of a tree's cards, parents first, the topmost at 0. */
export function corners(order: Branch[], cards: Map<string, Card>): Point[] {
  const sizes = order.map(({ id }) => cards.get(id)!);
  const shape = order.map(({ depth }, place) => `${depth},${sizes[place]!.width},${sizes[place]!.height}`).join(";");
  let found = known.get(shape);
  if (!found) {
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(shape, (found = workedOut(order, sizes)));
  }
  return found;
}

// What the layout calls x runs down here: the tree grows to the right.
function workedOut(order: Branch[], sizes: Card[]): Point[] {
  const flexes = new Map<Branch, Flex>();
  order.forEach((branch, place) => {
    const over = (branch.parent && flexes.get(branch.parent)) ?? null;
    const { width, height } = sizes[place]!;
    const flex: Flex = { over, size: [height, width + GAP.levels], children: [], x: 0, y: 0 };
    flexes.set(branch, flex);
    over?.children.push(flex);
  });
  flextree<Flex>({
    children: (flex) => flex.children,
    nodeSize: (flex) => flex.size,
    spacing: (one, other) => (one.over === other.over ? GAP.beside : GAP.cousins),
  })(flexes.get(order[0]!)!);
  const points = [...flexes.values()].map(({ x, y, size }) => ({ x: y, y: x - size[0] / 2 }));
  const top = points.reduce((least, { y }) => Math.min(least, y), Infinity);
  return points.map(({ x, y }) => ({ x, y: y - top }));
}

