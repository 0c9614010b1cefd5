// Layout of a map: the root on top, below it its branches in columns that suit the window, each a tree growing to the
// right.

import type { Branch } from "../model/tree";
import { walkTree } from "../model/tree";
import type { Card } from "./card";
import { layOutTree } from "./treeLayout";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlacedCard extends Box {
  branch: Branch;
  card: Card;
  /** Bounding box of the card and its descendants. */
  subtreeBox: Box;
}

export interface Layout {
  cards: Map<string, PlacedCard>;
  bounds: Box;
  columns: number;
  /** Lines from the root to its branches, as SVG paths. */
  rootConnectors: { path: string; box: Box }[];
}

const GAP = { columns: 84, lane: 52, blocks: 36 } as const;
// Another number of columns must fit better by this much, so that cards rarely move.
const KEEP_COLUMNS_BONUS = 0.35;

/** Lays out one branch of the root, with bounds starting at 0, 0. */
function layOutBlock(root: Branch, cards: Map<string, Card>): { placedCards: Map<string, PlacedCard>; bounds: Box } {
  const order = [...walkTree(root)];
  const points = layOutTree(order, cards);
  const placedCards = new Map<string, PlacedCard>();
  order.forEach((branch, index) => {
    const card = cards.get(branch.id)!;
    const box = { ...points[index]!, width: card.width, height: card.height };
    placedCards.set(branch.id, { ...box, branch, card, subtreeBox: { ...box } });
  });
  for (const branch of order.reverse()) {
    const parent = branch !== root && placedCards.get(branch.parent!.id);
    if (parent) parent.subtreeBox = unionBox(parent.subtreeBox, placedCards.get(branch.id)!.subtreeBox);
  }
  return { placedCards, bounds: { ...placedCards.get(root.id)!.subtreeBox } };
}

export function layOutMap(root: Branch, cards: Map<string, Card>, aspect: number, previous?: Layout): Layout {
  const blocks = root.children.map((child) => layOutBlock(child, cards));
  const columns = divideIntoColumns(blocks.map((block) => block.bounds), aspect, previous?.columns ?? 0);
  const card = cards.get(root.id)!;
  const rootBox: Box = { x: 0, y: 0, width: card.width, height: card.height };
  const placedCards = new Map<string, PlacedCard>([[root.id, { ...rootBox, branch: root, card, subtreeBox: { ...rootBox } }]]);
  const rootConnectors: Layout["rootConnectors"] = [];
  let x = GAP.columns / 2;
  for (const column of columns) {
    let y = card.height + (columns.length > 1 ? GAP.lane : GAP.blocks / 1.5);
    for (const index of column) {
      const { placedCards: blockCards, bounds } = blocks[index]!;
      for (const [id, placed] of blockCards) placedCards.set(id, translatePlacedCard(placed, x, y));
      rootConnectors.push(rootConnector(rootBox, x, placedCards.get(root.children[index]!.id)!));
      y += bounds.height + GAP.blocks;
    }
    x += Math.max(...column.map((index) => blocks[index]!.bounds.width)) + GAP.columns;
  }
  const bounds = [...placedCards.values()].reduce((all, placed) => unionBox(all, placed), rootBox);
  placedCards.get(root.id)!.subtreeBox = bounds;
  return { cards: placedCards, bounds, columns: columns.length, rootConnectors };
}

/** Returns the block indexes per column, in order, whose overall shape is closest to the window's. */
function divideIntoColumns(sizes: Box[], aspect: number, previousColumns: number): number[][] {
  let best: { columns: number[][]; error: number } | null = null;
  for (let count = 1; count <= Math.min(sizes.length, 64); count++) {
    const columns = fillColumns(sizes, count);
    const height = Math.max(...columns.map((column) => column.reduce((sum, index) => sum + sizes[index]!.height + GAP.blocks, 0)));
    const width = columns.reduce((sum, column) => sum + Math.max(...column.map((index) => sizes[index]!.width)) + GAP.columns, 0);
    const error = Math.abs(Math.log(width / height / aspect)) - (columns.length === previousColumns ? KEEP_COLUMNS_BONUS : 0);
    if (!best || error < best.error) best = { columns, error };
  }
  return best?.columns ?? [];
}

/** Fills at most `count` columns of similar height. */
function fillColumns(sizes: Box[], count: number): number[][] {
  let remainingHeight = sizes.reduce((sum, size) => sum + size.height + GAP.blocks, 0);
  const columns: number[][] = [[]];
  let height = 0;
  sizes.forEach((size, index) => {
    const target = (remainingHeight + height) / (count - columns.length + 1);
    if (columns.at(-1)!.length && columns.length < count && height + size.height / 2 > target) {
      columns.push([]);
      height = 0;
    }
    columns.at(-1)!.push(index);
    height += size.height + GAP.blocks;
    remainingHeight -= size.height + GAP.blocks;
  });
  return columns;
}

const translatePlacedCard = (placed: PlacedCard, x: number, y: number): PlacedCard => ({
  ...placed,
  x: placed.x + x,
  y: placed.y + y,
  subtreeBox: { ...placed.subtreeBox, x: placed.subtreeBox.x + x, y: placed.subtreeBox.y + y },
});

// Down from the root, along above the columns, down beside a column, and into the first card of a block.
function rootConnector(rootBox: Box, x: number, to: Box): { path: string; box: Box } {
  const from = GAP.columns / 4;
  const lane = rootBox.y + rootBox.height + GAP.lane / 2;
  const side = x - GAP.columns / 4;
  const y = to.y + to.height / 2;
  const across = side > from ? `V${lane - 8}Q${from} ${lane} ${from + 8} ${lane}H${side - 8}Q${side} ${lane} ${side} ${lane + 8}` : "";
  const path = `M${from} ${rootBox.y + rootBox.height}${across}V${y - 8}Q${side} ${y} ${side + 8} ${y}H${to.x}`;
  return { path, box: { x: 0, y: rootBox.y, width: to.x, height: y } };
}

export function unionBox(a: Box, b: Box): Box {
  const x = Math.min(a.x, b.x);
  const y = Math.min(a.y, b.y);
  return {
    x,
    y,
    width: Math.max(a.x + a.width, b.x + b.width) - x,
    height: Math.max(a.y + a.height, b.y + b.height) - y,
  };
}

export const intersects = (a: Box, b: Box): boolean =>
  a.x < b.x + b.width &&
  b.x < a.x + a.width &&
  a.y < b.y + b.height &&
  b.y < a.y + a.height;
