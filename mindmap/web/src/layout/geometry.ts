// Boxes, and the grid on which cards and links are placed. Sizes are in pixels at scale 1.

export interface Size {
  width: number;
  height: number;
}

export interface Box extends Size {
  x: number;
  y: number;
}

// All sizes are multiples of this grid, on which links are routed: a gap has room for at least one line.
export const GRID = 6;

/** Returns the smallest box that contains two boxes. */
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

/** Returns a box with a margin on each side. */
export const growBox = ({ x, y, width, height }: Box, margin: number): Box => ({ x: x - margin, y: y - margin, width: width + 2 * margin, height: height + 2 * margin });

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

export const computeCentre = ({ x, y, width, height }: Box): { x: number; y: number } => ({ x: x + width / 2, y: y + height / 2 });

/** Returns the distance of a box's centre from a point. */
export const computeDistance = (box: Box, from: { x: number; y: number }): number => {
  const { x, y } = computeCentre(box);
  return Math.hypot(x - from.x, y - from.y);
};
