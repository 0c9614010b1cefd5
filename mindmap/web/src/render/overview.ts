// Overview at small scales: cards as boxes merged into a few paths, and names of the largest branches.

import type { PlacedCard } from "../layout/layout";
import { isModelNode, getStatus } from "../model/tree";
import { type Measure, truncateText } from "../layout/text";

// A path covers at most this many pixels. Browsers paint a path again for every tile of 256 pixels that it reaches.
const CELL_PIXELS = 400;
// In pixels: minimum width and height of a branch whose name is shown, and height of the line of a name. `count`: maximum
// number of names.
const NAME_LIMITS = { width: 64, height: 40, line: 18, count: 60 } as const;

/** Merges neighbouring cards of the same class into paths. */
export function mergeCards(cards: PlacedCard[], isFaded: (id: string) => boolean, scale: number): { name: string; path: string }[] {
  const groups = new Map<string, { name: string; boxes: string[] }>();
  const cellSize = CELL_PIXELS / scale;
  for (const placedCard of cards) {
    const name = `${getOverviewClass(placedCard)}${isFaded(placedCard.branch.id) ? " faded" : ""}`;
    const key = `${name} ${Math.floor(placedCard.x / cellSize)} ${Math.floor(placedCard.y / cellSize)}`;
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { name, boxes: [] }));
    group.boxes.push(`M${Math.round(placedCard.x)} ${Math.round(placedCard.y)}h${placedCard.width}v${placedCard.height}h-${placedCard.width}z`);
  }
  return [...groups.values()].map(({ name, boxes }) => ({ name, path: boxes.join("") }));
}

function getOverviewClass({ branch: { node } }: PlacedCard): string {
  const status = getStatus(node);
  if (status) return `s-${status}`;
  return isModelNode(node) ? `t-${node.type}` : "plain";
}

export interface OverviewName {
  text: string;
  x: number;
  y: number;
}

/** Chooses the branches whose names are shown at a scale: the largest ones whose names do not overlap. Returns the names. */
export function chooseNames(cards: PlacedCard[], scale: number, measure: Measure): OverviewName[] {
  const large = cards
    .filter(({ branch, subtreeBox }) => branch.children.length && subtreeBox.width * scale > NAME_LIMITS.width && subtreeBox.height * scale > NAME_LIMITS.height)
    .sort((a, b) => a.branch.depth - b.branch.depth || b.subtreeBox.height - a.subtreeBox.height);
  const names: (OverviewName & { right: number })[] = [];
  for (const { branch, x, y, height, subtreeBox } of large) {
    if (names.length >= NAME_LIMITS.count) break;
    const text = branch.parent ? truncateText(branch.node.label, subtreeBox.width * scale * 0.8, measure) : branch.node.label;
    const name = { text, x, y: y + height / 2, right: x + (measure(text) + 16) / scale };
    const isOverlapping = names.some(
      (other) => name.x < other.right && other.x < name.right && Math.abs(other.y - name.y) * scale < NAME_LIMITS.line,
    );
    if (!isOverlapping) names.push(name);
  }
  return names;
}
