// The whole map as a small picture beneath the drawing: what a gesture brings into view before it is drawn.

import type { Drawing } from "../layout/drawing";
import type { Box, Place } from "../layout/layout";
import { colourOf, markOf } from "./colours";

// Six megabytes in memory.
const PIXELS = 1_500_000;
const DENSEST = 0.5;

export class Backdrop {
  readonly canvas = document.createElement("canvas");
  private bounds: Box | null = null;
  private scale = 1;

  constructor() {
    this.canvas.className = "backdrop";
    this.canvas.setAttribute("aria-hidden", "true");
    this.hide();
  }

  paint({ layout: { bounds, places } }: Drawing, faded: (id: string) => boolean): void {
    this.bounds = bounds;
    this.scale = Math.min(DENSEST, Math.sqrt(PIXELS / (bounds.width * bounds.height)));
    this.canvas.width = Math.ceil(bounds.width * this.scale);
    this.canvas.height = Math.ceil(bounds.height * this.scale);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(this.scale, 0, 0, this.scale, -bounds.x * this.scale, -bounds.y * this.scale);
    for (const place of places.values()) painted(context, place, faded(place.branch.id));
  }

  /** Nothing to be shown until it is painted anew. */
  forget(): void {
    this.bounds = null;
    this.hide();
  }

  get isPainted(): boolean {
    return this.bounds !== null;
  }

  show({ x, y, k }: { x: number; y: number; k: number }): void {
    if (!this.bounds) return;
    const [left, top] = [x + this.bounds.x * k, y + this.bounds.y * k];
    this.canvas.style.transform = `translate(${left}px, ${top}px) scale(${k / this.scale})`;
    this.canvas.hidden = false;
  }

  hide(): void {
    this.canvas.hidden = true;
  }
}

function painted(context: CanvasRenderingContext2D, { x, y, width, height, branch }: Place, faded: boolean): void {
  context.fillStyle = colourOf(faded ? "--line" : markOf(branch.node));
  context.fillRect(x, y, width, height);
}
