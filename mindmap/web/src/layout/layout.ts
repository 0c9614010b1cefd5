// Layout of a map. The root is on top. Below it, in columns that suit the window, are its branches ("blocks"), each a
// tree that grows to the right.

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

/** Card with its position. */
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

// `lane` is the space between the root and the columns, where the connectors run.
const GAP = { columns: 84, lane: 52, blocks: 36 } as const;
// Another number of columns must reduce the error of `divideIntoColumns` by this much, so that cards rarely move.
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
    if (parent) parent.subtreeBox = uniteBoxes(parent.subtreeBox, placedCards.get(branch.id)!.subtreeBox);
  }
  return { placedCards, bounds: { ...placedCards.get(root.id)!.subtreeBox } };
}

/** Lays out a map for a window's aspect ratio (width / height). It prefers the number of columns of `previous`. */
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
      for (const [id, placedCard] of blockCards) placedCards.set(id, translatePlacedCard(placedCard, x, y));
      rootConnectors.push(createRootConnector(rootBox, x, placedCards.get(root.children[index]!.id)!));
      y += bounds.height + GAP.blocks;
    }
    x += Math.max(...column.map((index) => blocks[index]!.bounds.width)) + GAP.columns;
  }
  const bounds = [...placedCards.values()].reduce((all, placedCard) => uniteBoxes(all, placedCard), rootBox);
  placedCards.get(root.id)!.subtreeBox = bounds;
  return { cards: placedCards, bounds, columns: columns.length, rootConnectors };
}

/** Divides the blocks, in order, into columns with about the aspect ratio of the window; returns their indexes. */
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

const translatePlacedCard = (placedCard: PlacedCard, x: number, y: number): PlacedCard => ({
  ...placedCard,
  x: placedCard.x + x,
  y: placedCard.y + y,
  subtreeBox: { ...placedCard.subtreeBox, x: placedCard.subtreeBox.x + x, y: placedCard.subtreeBox.y + y },
});

// The path runs down from the root, along the lane, down beside a column, and into the first card of a block.
function createRootConnector(rootBox: Box, x: number, to: Box): { path: string; box: Box } {
  const from = GAP.columns / 4;
  const lane = rootBox.y + rootBox.height + GAP.lane / 2;
  const side = x - GAP.columns / 4;
  const y = to.y + to.height / 2;
  const across = side > from ? `V${lane - 8}Q${from} ${lane} ${from + 8} ${lane}H${side - 8}Q${side} ${lane} ${side} ${lane + 8}` : "";
  const path = `M${from} ${rootBox.y + rootBox.height}${across}V${y - 8}Q${side} ${y} ${side + 8} ${y}H${to.x}`;
  return { path, box: { x: 0, y: rootBox.y, width: to.x, height: y } };
}

export function uniteBoxes(a: Box, b: Box): Box {
  const x = Math.min(a.x, b.x);
  const y = Math.min(a.y, b.y);
  return {
    x,
    y,
    width: Math.max(a.x + a.width, b.x + b.width) - x,
    height: Math.max(a.y + a.height, b.y + b.height) - y,
  };
}

export const contains = (outer: Box, inner: Box): boolean =>
  outer.x <= inner.x &&
  outer.y <= inner.y &&
  outer.x + outer.width >= inner.x + inner.width &&
  outer.y + outer.height >= inner.y + inner.height;

export const intersects = (a: Box, b: Box): boolean =>
  a.x < b.x + b.width &&
  b.x < a.x + a.width &&
  a.y < b.y + b.height &&
  b.y < a.y + a.height;
