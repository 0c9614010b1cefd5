// Positions of a tree's cards. They depend on the card sizes only and take 0.1 ms per card, so they are cached: most
// updates of a map change at most one tree.

import { flextree } from "d3-flextree";
import type { Branch } from "../model/tree";
import type { Card } from "./card";

const GAP = { siblings: 12, cousins: 22, levels: 56 } as const;
// A few megabytes. Trees that are still shown are cached again by the next drawing.
const MAX_CACHED = 4_000;

export interface Point {
  x: number;
  y: number;
}

interface FlexNode {
  parent: FlexNode | null;
  size: [number, number];
  children: FlexNode[];
  x: number;
  y: number;
}

const cache = new Map<string, Point[]>();

/** Returns the upper left corners of a tree's cards, parents first, the topmost at y = 0. */
export function layOutTree(order: Branch[], cards: Map<string, Card>): Point[] {
  const sizes = order.map(({ id }) => cards.get(id)!);
  const shape = order.map(({ depth }, index) => `${depth},${sizes[index]!.width},${sizes[index]!.height}`).join(";");
  let points = cache.get(shape);
  if (!points) {
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(shape, (points = computePoints(order, sizes)));
  }
  return points;
}

// flextree's x axis is the vertical one here, because the tree grows to the right.
function computePoints(order: Branch[], sizes: Card[]): Point[] {
  const flexNodes = new Map<Branch, FlexNode>();
  order.forEach((branch, index) => {
    const parent = (branch.parent && flexNodes.get(branch.parent)) ?? null;
    const { width, height } = sizes[index]!;
    const flex: FlexNode = { parent, size: [height, width + GAP.levels], children: [], x: 0, y: 0 };
    flexNodes.set(branch, flex);
    parent?.children.push(flex);
  });
  flextree<FlexNode>({
    children: (flex) => flex.children,
    nodeSize: (flex) => flex.size,
    spacing: (a, b) => (a.parent === b.parent ? GAP.siblings : GAP.cousins),
  })(flexNodes.get(order[0]!)!);
  const points = [...flexNodes.values()].map(({ x, y, size }) => ({ x: y, y: x - size[0] / 2 }));
  const top = points.reduce((minimum, { y }) => Math.min(minimum, y), Infinity);
  return points.map(({ x, y }) => ({ x, y: y - top }));
}
