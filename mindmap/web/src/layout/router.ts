// Routes of links around cards, and free places for their labels, on a grid of points.
//
// A route is the cheapest path along the grid (A*). Each step costs 1. A turn, and a point that another route uses, cost
// more.

import { type Box, GRID, growBox, intersects } from "./layout";

export type Point = [number, number];

// Costs, in steps.
const TURN_COST = 5;
const SHARED_COST = 4;
// Above 1, the search visits fewer points (for 30 links a fourteenth, at 2) and may find a slightly longer route.
const ESTIMATE_WEIGHT = 2;
// The router gives up after this many points for one route, and for all routes of a drawing.
const MAX_ROUTE_POINTS = 30_000;
const MAX_POINTS = 60_000;
// Maximum size of the grid: a search takes 32 bytes for each point.
const MAX_GRID_POINTS = 500_000;
// A label that covers a point of another route is as bad as one this many pixels further from the middle of its own route.
const COVERED_LINE_COST = 8;
// Places to try for a label along one straight part of a route.
const MAX_LABEL_PLACES = 16;
// A label keeps this distance from cards.
const LABEL_MARGIN = 1;
const DIRECTIONS: readonly Point[] = [[1, 0], [0, 1], [-1, 0], [0, -1]];

export class Router {
  private readonly columns: number;
  private readonly rows: number;
  private readonly isBlocked: Uint8Array;
  /** Number of routes through each point. */
  private readonly uses: Uint8Array;
  /** Costs of the states that the current search has reached; infinite for all others. */
  private readonly costs: Float32Array;
  /** State before each reached state; -1 before a start. */
  private readonly previous: Int32Array;
  private readonly reached: number[] = [];
  private readonly labels: Box[] = [];
  private remainingPoints = MAX_POINTS;

  /** Routes stay within the bounds, and outside the obstacles, the cards, and a margin around them. */
  constructor(
    obstacles: readonly Box[],
    private readonly bounds: Box,
    private readonly step = GRID,
    private readonly margin = 0,
  ) {
    this.columns = Math.floor(bounds.width / step) + 1;
    this.rows = Math.floor(bounds.height / step) + 1;
    const size = this.columns * this.rows;
    if (size > MAX_GRID_POINTS) this.remainingPoints = 0;
    this.isBlocked = new Uint8Array(this.remainingPoints ? size : 0);
    this.uses = new Uint8Array(this.isBlocked.length);
    this.costs = new Float32Array(this.isBlocked.length * 4).fill(Infinity);
    this.previous = new Int32Array(this.isBlocked.length * 4);
    if (this.remainingPoints) for (const box of obstacles) this.block(growBox(box, margin));
  }

  /** Returns the corners of a route from the side of one card to the side of another; null if there is none. */
  findRoute(from: Box, to: Box): Point[] | null {
    const goals = new Map(this.listPorts(growBox(to, this.margin)));
    const points = this.remainingPoints > 0 && goals.size ? this.search(this.listPorts(growBox(from, this.margin)), goals, to) : null;
    if (!points) return null;
    for (const point of points) this.uses[point]! += 1;
    const first = this.getPosition(points[0]!);
    const last = this.getPosition(points.at(-1)!);
    return removeStraightPoints([[getNearSide(from, first[0]), first[1]], ...points.map((point) => this.getPosition(point)), [getNearSide(to, last[0]), last[1]]]);
  }

  /** Reserves the best place for a label along a route: near its middle, free of cards and other labels. Null if none is free. */
  placeLabel(route: Point[], width: number, height: number): Box | null {
    const candidates: { box: Box; cost: number }[] = [];
    const [middleX, middleY] = findMiddle(route);
    for (let index = 1; index < route.length; index++) {
      const [[x1, y1], [x2, y2]] = [route[index - 1]!, route[index]!];
      const count = Math.min(MAX_LABEL_PLACES, Math.ceil((Math.abs(x2 - x1) + Math.abs(y2 - y1)) / (2 * this.step)));
      for (let part = 0; part <= count; part++) {
        const [x, y] = [x1 + ((x2 - x1) * part) / count, y1 + ((y2 - y1) * part) / count];
        const distance = Math.hypot(x - middleX, y - middleY);
        // On a vertical part, the label may also stand to its right or left.
        const shifts = y1 === y2 ? [0] : [0, width / 2 + 3, -width / 2 - 3];
        for (const shift of shifts) {
          const box = { x: x - width / 2 + shift, y: y - height / 2, width, height };
          const ownPoints = shift ? 0 : (y1 === y2 ? width : height) / this.step + 2;
          candidates.push({ box, cost: distance + Math.abs(shift) / 4 + Math.max(0, this.countLines(box) - ownPoints) * COVERED_LINE_COST });
        }
      }
    }
    candidates.sort((a, b) => a.cost - b.cost);
    const [best] = candidates;
    if (!best || best.cost === Infinity) return null;
    this.labels.push(best.box);
    return best.box;
  }

  /** Returns the number of points of routes in a box; infinite if cards or labels are there, or if it is out of bounds. */
  private countLines(box: Box): number {
    const [left, right] = [this.toColumn(box.x - LABEL_MARGIN, Math.floor), this.toColumn(box.x + box.width + LABEL_MARGIN, Math.ceil)];
    const [top, bottom] = [this.toRow(box.y - LABEL_MARGIN, Math.floor), this.toRow(box.y + box.height + LABEL_MARGIN, Math.ceil)];
    if (left < 0 || top < 0 || right >= this.columns || bottom >= this.rows) return Infinity;
    let count = 0;
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) {
        const point = row * this.columns + column;
        if (this.isBlocked[point]) return Infinity;
        count += this.uses[point]!;
      }
    }
    return this.isLabelled(box) ? Infinity : count;
  }

  private isLabelled(box: Box): boolean {
    return this.labels.some((label) => intersects(label, box));
  }

  private block({ x, y, width, height }: Box): void {
    const [left, right] = [this.toColumn(x, Math.ceil), this.toColumn(x + width, Math.floor)];
    const [top, bottom] = [this.toRow(y, Math.ceil), this.toRow(y + height, Math.floor)];
    for (let row = Math.max(top, 0); row <= Math.min(bottom, this.rows - 1); row++) {
      for (let column = Math.max(left, 0); column <= Math.min(right, this.columns - 1); column++) this.isBlocked[row * this.columns + column] = 1;
    }
  }

  private readonly toColumn = (x: number, rounded: (value: number) => number): number => rounded((x - this.bounds.x) / this.step);
  private readonly toRow = (y: number, rounded: (value: number) => number): number => rounded((y - this.bounds.y) / this.step);

  private getPosition(point: number): Point {
    return [this.bounds.x + (point % this.columns) * this.step, this.bounds.y + Math.floor(point / this.columns) * this.step];
  }

  /** Returns the free points beside the middle of a card's left and right sides, each with the direction away from the card. */
  private listPorts({ x, y, width, height }: Box): [number, number][] {
    const ports: [number, number][] = [];
    const sides = [
      [this.toColumn(x, (value) => Math.ceil(value) - 1), 2],
      [this.toColumn(x + width, (value) => Math.floor(value) + 1), 0],
    ] as const;
    for (const [column, direction] of sides) {
      if (column < 0 || column >= this.columns) continue;
      for (let row = this.toRow(y + height * 0.2, Math.ceil); row <= this.toRow(y + height * 0.8, Math.floor); row++) {
        const point = row * this.columns + column;
        if (row >= 0 && row < this.rows && !this.isBlocked[point]) ports.push([point, direction]);
      }
    }
    return ports;
  }

  private search(starts: [number, number][], goals: Map<number, number>, to: Box): number[] | null {
    const { costs, previous, reached } = this;
    // Only the costs that the last search has changed are reset: the search for a short route takes less time.
    for (const state of reached.splice(0)) costs[state] = Infinity;
    const queue = new Queue();
    const [left, right] = [this.toColumn(to.x, Math.ceil) - 1, this.toColumn(to.x + to.width, Math.floor) + 1];
    const [top, bottom] = [this.toRow(to.y, Math.ceil), this.toRow(to.y + to.height, Math.floor)];
    const estimate = (point: number): number => {
      const [column, row] = [point % this.columns, Math.floor(point / this.columns)];
      // A route ends at the left or right side.
      return ESTIMATE_WEIGHT * (Math.min(Math.abs(column - left), Math.abs(column - right)) + Math.max(top - row, 0, row - bottom));
    };
    // A state is a point and the direction of the last step.
    for (const [point, direction] of starts) {
      const cost = this.uses[point]! * SHARED_COST;
      const state = point * 4 + direction;
      costs[state] = cost;
      previous[state] = -1;
      reached.push(state);
      queue.push(state, cost + estimate(point));
    }
    for (let count = 0; count < MAX_ROUTE_POINTS; count++) {
      const state = queue.pop();
      if (state === undefined) return null;
      this.remainingPoints--;
      const [point, direction] = [state >> 2, state & 3];
      const awayDirection = goals.get(point);
      if (awayDirection !== undefined && direction !== awayDirection) return this.listPoints(state, previous);
      for (let next = 0; next < 4; next++) {
        if (next === (direction ^ 2)) continue; // the way back
        const [dx, dy] = DIRECTIONS[next]!;
        const column = (point % this.columns) + dx;
        const neighbour = point + dx + dy * this.columns;
        if (column < 0 || column >= this.columns || neighbour < 0 || neighbour >= this.isBlocked.length || this.isBlocked[neighbour]) continue;
        const cost = costs[state]! + 1 + (next === direction ? 0 : TURN_COST) + this.uses[neighbour]! * SHARED_COST;
        const key = neighbour * 4 + next;
        if (cost >= costs[key]!) continue;
        if (costs[key] === Infinity) reached.push(key);
        costs[key] = cost;
        previous[key] = state;
        queue.push(key, cost + estimate(neighbour));
      }
    }
    return null;
  }

  private listPoints(state: number, previous: Int32Array): number[] {
    const points: number[] = [];
    for (let next = state; next >= 0; next = previous[next]!) points.push(next >> 2);
    return points.reverse();
  }
}

/** Returns the x of the left or right side of a box, whichever is nearer to `from`. */
const getNearSide = ({ x, width }: Box, from: number): number => (from < x + width / 2 ? x : x + width);

/** Returns the ends and the corners of a route. */
function removeStraightPoints(points: Point[]): Point[] {
  return points.filter(([x, y], index) => {
    const [before, after] = [points[index - 1], points[index + 1]];
    return !before || !after || !((before[0] === x && after[0] === x) || (before[1] === y && after[1] === y));
  });
}

/** Returns the point halfway along a route. */
export function findMiddle(route: Point[]): Point {
  const lengths = route.slice(1).map(([x, y], index) => Math.abs(x - route[index]![0]) + Math.abs(y - route[index]![1]));
  let remaining = lengths.reduce((sum, length) => sum + length, 0) / 2;
  for (const [index, length] of lengths.entries()) {
    const [[x1, y1], [x2, y2]] = [route[index]!, route[index + 1]!];
    if (remaining <= length && length) return [x1 + ((x2 - x1) * remaining) / length, y1 + ((y2 - y1) * remaining) / length];
    remaining -= length;
  }
  return route[0]!;
}

/** Priority queue of numbers: a binary heap. */
class Queue {
  private readonly values: number[] = [];
  private readonly priorities: number[] = [];

  push(value: number, priority: number): void {
    let index = this.values.length;
    while (index) {
      const parent = (index - 1) >> 1;
      if (this.priorities[parent]! <= priority) break;
      this.set(index, this.values[parent]!, this.priorities[parent]!);
      index = parent;
    }
    this.set(index, value, priority);
  }

  pop(): number | undefined {
    const { values, priorities } = this;
    const top = values[0];
    const [value, priority] = [values.pop(), priorities.pop()];
    if (value === undefined || priority === undefined || !values.length) return top;
    let index = 0;
    for (let child = 1; child < values.length; child = 2 * index + 1) {
      if (child + 1 < values.length && priorities[child + 1]! < priorities[child]!) child++;
      if (priorities[child]! >= priority) break;
      this.set(index, values[child]!, priorities[child]!);
      index = child;
    }
    this.set(index, value, priority);
    return top;
  }

  private set(index: number, value: number, priority: number): void {
    this.values[index] = value;
    this.priorities[index] = priority;
  }
}
