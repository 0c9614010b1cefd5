// Routes of links around cards, and free places for their labels, on a grid of points.
//
// A route is the cheapest path along the grid (A*). Each step costs 1; a turn, and a point that another route uses, cost
// more. Points are numbered row by row. A search state is a point and the direction of the last step.

import { type Box, GRID, growBox, intersects } from "./geometry";

/** Position in pixels: x and y. */
export type Position = [number, number];

// Additional cost of a turn, in steps.
const TURN_COST = 5;
// Additional cost of a point for each other route through it, in steps.
const SHARED_COST = 4;
// Weight of the estimated cost of the rest of a route. At 2 instead of 1, the search visits a fourteenth of the states
// for 30 links, but may find a slightly longer route.
const ESTIMATE_WEIGHT = 2;
// The search for one route gives up after it has visited this many states.
const MAX_VISITS_PER_ROUTE = 30_000;
// After its searches have visited this many states together, a router searches no further route.
const MAX_VISITS = 60_000;
// Maximum size of the grid: a search takes 32 bytes for each point.
const MAX_GRID_POINTS = 500_000;
// Cost of each point of another route that a label covers. The unit is a pixel of distance between the label and the middle
// of its own route.
const COVERED_POINT_COST = 8;
// Maximum number of places to try for a label along one straight section of a route.
const MAX_LABEL_PLACES = 16;
// Minimum distance between a label and a card, in pixels.
const LABEL_MARGIN = 1;
// Right, down, left, up. The opposite of a direction is its index ^ 2.
const DIRECTIONS: readonly Position[] = [[1, 0], [0, 1], [-1, 0], [0, -1]];

/** Finds routes around cards. Each route raises the cost of its points for the routes after it. */
export class Router {
  private readonly columns: number;
  private readonly rows: number;
  /** 1 for each point that no route may use. */
  private readonly isBlocked: Uint8Array;
  /** Number of routes through each point. */
  private readonly routeCounts: Uint8Array;
  /** Cost of each state that the current search has reached; Infinity for all other states. */
  private readonly costs: Float32Array;
  /** State from which each reached state was reached; -1 for a state in which the route starts. */
  private readonly previousStates: Int32Array;
  private readonly reachedStates: number[] = [];
  private readonly labelBoxes: Box[] = [];
  private remainingVisits = MAX_VISITS;

  /**
   * Routes stay within `bounds`, and at least `margin` pixels away from the obstacles, which are the cards. `step`:
   * distance between neighbouring points of the grid, in pixels.
   */
  constructor(
    obstacles: readonly Box[],
    private readonly bounds: Box,
    private readonly step = GRID,
    private readonly margin = 0,
  ) {
    this.columns = Math.floor(bounds.width / step) + 1;
    this.rows = Math.floor(bounds.height / step) + 1;
    const size = this.columns * this.rows;
    if (size > MAX_GRID_POINTS) this.remainingVisits = 0;
    this.isBlocked = new Uint8Array(this.remainingVisits ? size : 0);
    this.routeCounts = new Uint8Array(this.isBlocked.length);
    this.costs = new Float32Array(this.isBlocked.length * 4).fill(Infinity);
    this.previousStates = new Int32Array(this.isBlocked.length * 4);
    if (this.remainingVisits) for (const box of obstacles) this.block(growBox(box, margin));
  }

  /** Returns the corners of a route from the side of one card to the side of another; null if there is none. */
  findRoute(from: Box, to: Box): Position[] | null {
    const goals = new Map(this.listPorts(growBox(to, this.margin)));
    const points = this.remainingVisits > 0 && goals.size ? this.search(this.listPorts(growBox(from, this.margin)), goals, to) : null;
    if (!points) return null;
    for (const point of points) this.routeCounts[point]! += 1;
    const first = this.getPosition(points[0]!);
    const last = this.getPosition(points.at(-1)!);
    return removeStraightSteps([[getNearSide(from, first[0]), first[1]], ...points.map((point) => this.getPosition(point)), [getNearSide(to, last[0]), last[1]]]);
  }

  /** Reserves the best place for a label along a route: free of cards and other labels, and near its middle. Null if none is free. */
  placeLabel(route: Position[], width: number, height: number): Box | null {
    const candidates: { box: Box; cost: number }[] = [];
    const [middleX, middleY] = findMiddle(route);
    for (let index = 1; index < route.length; index++) {
      const [[x1, y1], [x2, y2]] = [route[index - 1]!, route[index]!];
      const lastPlace = Math.min(MAX_LABEL_PLACES, Math.ceil((Math.abs(x2 - x1) + Math.abs(y2 - y1)) / (2 * this.step)));
      for (let place = 0; place <= lastPlace; place++) {
        const [x, y] = [x1 + ((x2 - x1) * place) / lastPlace, y1 + ((y2 - y1) * place) / lastPlace];
        const distance = Math.hypot(x - middleX, y - middleY);
        // The label may also stand to the right or left of a vertical section.
        const shifts = y1 === y2 ? [0] : [0, width / 2 + 3, -width / 2 - 3];
        for (const shift of shifts) {
          const box = { x: x - width / 2 + shift, y: y - height / 2, width, height };
          // Number of points of its own route that the label covers.
          const ownPointCount = shift ? 0 : (y1 === y2 ? width : height) / this.step + 2;
          candidates.push({ box, cost: distance + Math.abs(shift) / 4 + Math.max(0, this.countRoutePoints(box) - ownPointCount) * COVERED_POINT_COST });
        }
      }
    }
    candidates.sort((a, b) => a.cost - b.cost);
    const [best] = candidates;
    if (!best || best.cost === Infinity) return null;
    this.labelBoxes.push(best.box);
    return best.box;
  }

  /** Returns the number of points of all routes in a box; infinite if the box covers a card or label or exceeds the bounds. */
  private countRoutePoints(box: Box): number {
    const [left, right] = [this.toColumn(box.x - LABEL_MARGIN, Math.floor), this.toColumn(box.x + box.width + LABEL_MARGIN, Math.ceil)];
    const [top, bottom] = [this.toRow(box.y - LABEL_MARGIN, Math.floor), this.toRow(box.y + box.height + LABEL_MARGIN, Math.ceil)];
    if (left < 0 || top < 0 || right >= this.columns || bottom >= this.rows) return Infinity;
    let count = 0;
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) {
        const point = row * this.columns + column;
        if (this.isBlocked[point]) return Infinity;
        count += this.routeCounts[point]!;
      }
    }
    return this.coversLabel(box) ? Infinity : count;
  }

  private coversLabel(box: Box): boolean {
    return this.labelBoxes.some((label) => intersects(label, box));
  }

  private block({ x, y, width, height }: Box): void {
    const [left, right] = [this.toColumn(x, Math.ceil), this.toColumn(x + width, Math.floor)];
    const [top, bottom] = [this.toRow(y, Math.ceil), this.toRow(y + height, Math.floor)];
    for (let row = Math.max(top, 0); row <= Math.min(bottom, this.rows - 1); row++) {
      for (let column = Math.max(left, 0); column <= Math.min(right, this.columns - 1); column++) this.isBlocked[row * this.columns + column] = 1;
    }
  }

  private readonly toColumn = (x: number, round: (value: number) => number): number => round((x - this.bounds.x) / this.step);
  private readonly toRow = (y: number, round: (value: number) => number): number => round((y - this.bounds.y) / this.step);

  private getPosition(point: number): Position {
    return [this.bounds.x + (point % this.columns) * this.step, this.bounds.y + Math.floor(point / this.columns) * this.step];
  }

  /** Returns the free points beside the left and right sides of a card, near their middle, each with the direction away from the card. */
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

  /**
   * Returns the points of the cheapest route from a start to a goal beside the card `to`; null if there is none. Starts and
   * goals are points with the directions away from their cards.
   */
  private search(starts: [number, number][], goals: Map<number, number>, to: Box): number[] | null {
    const { costs, previousStates, reachedStates } = this;
    // Only costs that the last search has changed are reset, so that the search for a short route stays fast in a large map.
    for (const state of reachedStates.splice(0)) costs[state] = Infinity;
    const queue = new Queue();
    const [left, right] = [this.toColumn(to.x, Math.ceil) - 1, this.toColumn(to.x + to.width, Math.floor) + 1];
    const [top, bottom] = [this.toRow(to.y, Math.ceil), this.toRow(to.y + to.height, Math.floor)];
    const estimate = (point: number): number => {
      const [column, row] = [point % this.columns, Math.floor(point / this.columns)];
      // A route ends at the left or right side of the card.
      return ESTIMATE_WEIGHT * (Math.min(Math.abs(column - left), Math.abs(column - right)) + Math.max(top - row, 0, row - bottom));
    };
    for (const [point, direction] of starts) {
      const cost = this.routeCounts[point]! * SHARED_COST;
      const state = point * 4 + direction;
      costs[state] = cost;
      previousStates[state] = -1;
      reachedStates.push(state);
      queue.push(state, cost + estimate(point));
    }
    for (let visits = 0; visits < MAX_VISITS_PER_ROUTE; visits++) {
      const state = queue.pop();
      if (state === undefined) return null;
      this.remainingVisits--;
      const [point, direction] = [state >> 2, state & 3];
      const awayDirection = goals.get(point);
      if (awayDirection !== undefined && direction !== awayDirection) return this.listPoints(state);
      for (let nextDirection = 0; nextDirection < 4; nextDirection++) {
        if (nextDirection === (direction ^ 2)) continue; // the way back
        const [dx, dy] = DIRECTIONS[nextDirection]!;
        const column = (point % this.columns) + dx;
        const neighbour = point + dx + dy * this.columns;
        if (column < 0 || column >= this.columns || neighbour < 0 || neighbour >= this.isBlocked.length || this.isBlocked[neighbour]) continue;
        const cost = costs[state]! + 1 + (nextDirection === direction ? 0 : TURN_COST) + this.routeCounts[neighbour]! * SHARED_COST;
        const nextState = neighbour * 4 + nextDirection;
        if (cost >= costs[nextState]!) continue;
        if (costs[nextState] === Infinity) reachedStates.push(nextState);
        costs[nextState] = cost;
        previousStates[nextState] = state;
        queue.push(nextState, cost + estimate(neighbour));
      }
    }
    return null;
  }

  /** Returns the points of the route that ends in a state. */
  private listPoints(lastState: number): number[] {
    const points: number[] = [];
    for (let state = lastState; state >= 0; state = this.previousStates[state]!) points.push(state >> 2);
    return points.reverse();
  }
}

/** Returns the x of the left or right side of a box, whichever is nearer to another x. */
const getNearSide = ({ x, width }: Box, otherX: number): number => (otherX < x + width / 2 ? x : x + width);

/** Returns the ends and the corners of a route, without the positions between them. */
function removeStraightSteps(positions: Position[]): Position[] {
  return positions.filter(([x, y], index) => {
    const [before, after] = [positions[index - 1], positions[index + 1]];
    return !before || !after || !((before[0] === x && after[0] === x) || (before[1] === y && after[1] === y));
  });
}

/** Returns the position halfway along a route. */
export function findMiddle(route: Position[]): Position {
  const lengths = route.slice(1).map(([x, y], index) => Math.abs(x - route[index]![0]) + Math.abs(y - route[index]![1]));
  let remaining = lengths.reduce((sum, length) => sum + length, 0) / 2;
  for (const [index, length] of lengths.entries()) {
    const [[x1, y1], [x2, y2]] = [route[index]!, route[index + 1]!];
    if (remaining <= length && length) return [x1 + ((x2 - x1) * remaining) / length, y1 + ((y2 - y1) * remaining) / length];
    remaining -= length;
  }
  return route[0]!;
}

/** Priority queue of numbers, a binary heap. `pop` returns the number with the lowest priority value. */
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
