// Layout of a map. Children are stacked below their parent, indented. Where a branch is too tall for the window, its
// children stand side by side in columns, as do most branches of the root.

import { type Branch, walkTree } from "../model/tree";
import type { Card } from "./card";
import { type Box, type Size, GRID, uniteBoxes } from "./geometry";

/** Card with its position. */
export interface PlacedCard extends Box {
  branch: Branch;
  card: Card;
  /** Bounding box of the card and its descendants. */
  subtreeBox: Box;
}

/** Lines from a parent to its children in a column, as an SVG path. */
export interface Connector {
  path: string;
  box: Box;
}

export interface Layout {
  cards: Map<string, PlacedCard>;
  bounds: Box;
  /** Number of columns below the root; 0 if all cards are stacked in one. */
  columns: number;
  connectors: Connector[];
}

/** Smallest scale at which the page opens a map. Text of 12 pixels, the smallest on cards, is 11 pixels high at this scale. */
export const OPENING_SCALE = 0.92;

// Space between cards, between the branches of the root, between columns (with room for links and the connector), and
// between a parent and its columns (`lane`).
const GAP = { cards: 12, branches: 18, columns: 24, lane: 30 } as const;
const INDENT = 18;
const CONNECTOR_RADIUS = 6;
// Smallest column height that is tried for the branches of the root, as a share of the window's height.
const MIN_COLUMN_SHARE = 0.5;
// Ratio between two column heights that are tried one after the other.
const HEIGHT_STEP = 1.1;
// Number of levels, from the root, on which branches may be divided into columns.
const MAX_DIVIDED_LEVELS = 3;
// Maximum space between columns, in pixels. In more space, no more labels of links would fit.
const MAX_COLUMN_GAP = 120;
// An arrangement with another number of columns must have an error smaller by this much, so that cards rarely move.
const KEEP_COLUMNS_BONUS = 0.35;
// Weight, in an arrangement's error, of the scale at which it fits the window. The share of the window's width that it
// uses has the weight 1.
const SCALE_WEIGHT = 4;

// An arrangement that fits the window's width, and is at most MAX_WINDOWS windows high, counts as if it fitted at this
// scale or larger, because scrolling shows all of it.
const SCROLLABLE_SCALE = 0.85;
const MAX_WINDOWS = 3;

/** A branch with its children in columns. Without columns, all its descendants are stacked below it. */
interface Arrangement extends Size {
  branch: Branch;
  columns: Arrangement[][];
}

/** Lays out a map for a window of a size. It prefers the number of columns of the previous layout. */
export function layOutMap(root: Branch, cards: Map<string, Card>, window: Size, previous?: Layout): Layout {
  const order = [...walkTree(root)];
  const sizes = measureStacks(order, cards);
  const arrangement = chooseArrangement(root, cards, sizes, window, previous?.columns);
  const scale = Math.max(OPENING_SCALE, computeScale(arrangement, window));
  const spareWidthPerGap = (window.width / scale - arrangement.width) / Math.max(arrangement.columns.length - 1, 1);
  const gap = Math.min(MAX_COLUMN_GAP, GAP.columns + Math.max(0, Math.floor(spareWidthPerGap / GRID) * GRID));
  const layout: Layout = { cards: new Map(), bounds: { x: 0, y: 0, width: 0, height: 0 }, columns: arrangement.columns.length, connectors: [] };
  place(arrangement, 0, 0, cards, gap, layout);
  layout.cards = new Map(order.map(({ id }) => [id, layout.cards.get(id)!])); // parents first
  for (const branch of order.reverse()) {
    const parent = branch.parent && layout.cards.get(branch.parent.id);
    if (parent) parent.subtreeBox = uniteBoxes(parent.subtreeBox, layout.cards.get(branch.id)!.subtreeBox);
  }
  layout.bounds = layout.cards.get(root.id)!.subtreeBox;
  return layout;
}

/** Checks whether all of a layout fits into a window at OPENING_SCALE. */
export const fitsAtOpeningScale = ({ bounds }: Layout, window: Size): boolean => computeScale(bounds, window) >= OPENING_SCALE;

/** Returns the scale at which all of an area fits into a window, 1 at most. */
export const computeScale = (area: Size, window: Size): number => Math.min(1, window.width / area.width, window.height / area.height);

const getGap = (parent: Branch): number => (parent.parent ? GAP.cards : GAP.branches);
/** Returns the height of the space between a parent and its columns. */
const getLaneHeight = (columns: Arrangement[][], parent: Branch): number => (columns.length > 1 ? GAP.lane : getGap(parent));

/** Returns the size of every branch whose descendants are stacked in one column. */
function measureStacks(order: Branch[], cards: Map<string, Card>): Map<Branch, Size> {
  const sizes = new Map<Branch, Size>(order.map((branch) => [branch, { width: cards.get(branch.id)!.width, height: cards.get(branch.id)!.height }]));
  for (let index = order.length - 1; index > 0; index--) {
    const { width, height } = sizes.get(order[index]!)!;
    const parent = order[index]!.parent!;
    const size = sizes.get(parent)!;
    size.width = Math.max(size.width, width + INDENT);
    size.height += height + getGap(parent);
  }
  return sizes;
}

/** Tries column heights. Returns the arrangement that fits the window at the largest scale; if several are similar, the widest. */
function chooseArrangement(root: Branch, cards: Map<string, Card>, sizes: Map<Branch, Size>, window: Size, previousColumns: number | undefined): Arrangement {
  let best: { arrangement: Arrangement; error: number } | null = null;
  const stackedHeight = sizes.get(root)!.height;
  for (let height = window.height * MIN_COLUMN_SHARE; ; height *= HEIGHT_STEP) {
    const arrangement = arrange(root, height, cards, sizes, 0);
    const scale = computeScale(arrangement, window);
    const keepBonus = arrangement.columns.length === previousColumns ? KEEP_COLUMNS_BONUS : 0;
    const isScrollable = arrangement.width * OPENING_SCALE <= window.width && arrangement.height <= window.height * MAX_WINDOWS;
    const error = -SCALE_WEIGHT * Math.log(isScrollable ? Math.max(scale, SCROLLABLE_SCALE) : scale) - Math.min(1, arrangement.width / window.width) - keepBonus;
    if (!best || error < best.error) best = { arrangement, error };
    if (height >= stackedHeight) return best.arrangement;
  }
}

/** Arranges a branch in columns of about `maxHeight`. `level`: depth of the branch below the root. */
function arrange(branch: Branch, maxHeight: number, cards: Map<string, Card>, sizes: Map<Branch, Size>, level: number): Arrangement {
  const stacked = { branch, columns: [], ...sizes.get(branch)! };
  const card = cards.get(branch.id)!;
  if (stacked.height <= maxHeight || !branch.children.length || level >= MAX_DIVIDED_LEVELS) return stacked;
  const columnHeight = Math.max(maxHeight - card.height - GAP.lane, maxHeight / 2);
  const children = branch.children.map((child) => arrange(child, columnHeight, cards, sizes, level + 1));
  const gap = getGap(branch);
  const totalHeight = children.reduce((sum, child) => sum + child.height + gap, -gap);
  const columns = fillColumns(children, Math.ceil(totalHeight / columnHeight), gap);
  const width = columns.reduce((sum, column) => sum + Math.max(...column.map((child) => child.width)), INDENT + GAP.columns * (columns.length - 1));
  const height = Math.max(...columns.map((column) => column.reduce((sum, child) => sum + child.height + gap, -gap)));
  return { branch, columns, width: Math.max(width, card.width), height: card.height + getLaneHeight(columns, branch) + height };
}

/** Distributes the children, in order, over at most `count` columns of similar height. */
function fillColumns(children: Arrangement[], count: number, gap: number): Arrangement[][] {
  let remainingHeight = children.reduce((sum, child) => sum + child.height + gap, 0);
  const columns: Arrangement[][] = [[]];
  let height = 0;
  for (const child of children) {
    const target = (remainingHeight + height) / (count - columns.length + 1);
    if (columns.at(-1)!.length && columns.length < count && height + child.height / 2 > target) {
      columns.push([]);
      height = 0;
    }
    columns.at(-1)!.push(child);
    height += child.height + gap;
    remainingHeight -= child.height + gap;
  }
  return columns;
}

/** Places an arrangement with its upper left corner at x, y. `gap`: space between its columns. */
function place({ branch, columns }: Arrangement, x: number, y: number, cards: Map<string, Card>, gap: number, layout: Layout): void {
  if (!columns.length) {
    placeStack(branch, x, y, cards, layout);
    return;
  }
  const parent = placeCard(branch, x, y, cards, layout);
  let left = x + INDENT;
  for (const column of columns) {
    let top = y + parent.height + getLaneHeight(columns, branch);
    for (const child of column) {
      place(child, left, top, cards, GAP.columns, layout);
      top += child.height + getGap(branch);
    }
    layout.connectors.push(createConnector(parent, column.map((child) => layout.cards.get(child.branch.id)!)));
    left += Math.max(...column.map((child) => child.width)) + gap;
  }
}

/** Places a branch and its descendants in one column. */
function placeStack(root: Branch, x: number, y: number, cards: Map<string, Card>, layout: Layout): void {
  const order = [...walkTree(root)];
  let top = y;
  for (const branch of order) {
    if (branch !== root) top += getGap(branch.parent!);
    top += placeCard(branch, x + (branch.depth - root.depth) * INDENT, top, cards, layout).height;
  }
  for (const branch of order) {
    const children = branch.children.map((child) => layout.cards.get(child.id)!);
    if (children.length) layout.connectors.push(createConnector(layout.cards.get(branch.id)!, children));
  }
}

function placeCard(branch: Branch, x: number, y: number, cards: Map<string, Card>, layout: Layout): PlacedCard {
  const card = cards.get(branch.id)!;
  const box = { x, y, width: card.width, height: card.height };
  const placedCard = { ...box, branch, card, subtreeBox: { ...box } };
  layout.cards.set(branch.id, placedCard);
  return placedCard;
}

// The path runs down from the parent, to the right if the column stands there, down beside the column and into each of
// its cards.
function createConnector(parent: Box, children: Box[]): Connector {
  const r = CONNECTOR_RADIUS;
  const from = parent.x + INDENT / 2;
  const side = children[0]!.x - INDENT / 2;
  const bottom = parent.y + parent.height;
  const lane = bottom + GAP.lane / 2;
  const last = children.at(-1)!;
  const end = last.y + last.height / 2;
  const across = side > from ? `V${lane - r}Q${from} ${lane} ${from + r} ${lane}H${side - r}Q${side} ${lane} ${side} ${lane + r}` : "";
  const elbows = children.map(({ x, y, height }) => `M${side} ${y + height / 2 - r}q0 ${r} ${r} ${r}H${x}`).join("");
  return { path: `M${from} ${bottom}${across}V${end - r}${elbows}`, box: { x: from, y: bottom, width: last.x - from, height: end - bottom } };
}
