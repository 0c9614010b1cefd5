// Low-resolution picture of the map behind the drawing; visible until newly uncovered cards are drawn.

import type { Drawing } from "../layout/drawing";
import type { Box, PlacedCard } from "../layout/layout";
import { resolveColour, getColourProperty } from "./colours";

// The canvas takes four bytes per pixel: six megabytes.
const MAX_PIXELS = 1_500_000;
const MAX_SCALE = 0.5;

export class Backdrop {
  readonly canvas = document.createElement("canvas");
  private bounds: Box | null = null;
  private scale = 1;

  constructor() {
    this.canvas.className = "backdrop";
    this.canvas.setAttribute("aria-hidden", "true");
    this.hide();
  }

  paint({ layout: { bounds, cards } }: Drawing, isFaded: (id: string) => boolean): void {
    this.bounds = bounds;
    this.scale = Math.min(MAX_SCALE, Math.sqrt(MAX_PIXELS / (bounds.width * bounds.height)));
    this.canvas.width = Math.ceil(bounds.width * this.scale);
    this.canvas.height = Math.ceil(bounds.height * this.scale);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(this.scale, 0, 0, this.scale, -bounds.x * this.scale, -bounds.y * this.scale);
    for (const placedCard of cards.values()) paintCard(context, placedCard, isFaded(placedCard.branch.id));
  }

  /** Hides the picture until it is painted again. */
  invalidate(): void {
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

function paintCard(context: CanvasRenderingContext2D, { x, y, width, height, branch }: PlacedCard, isFaded: boolean): void {
  context.fillStyle = resolveColour(isFaded ? "--line" : getColourProperty(branch.node));
  context.fillRect(x, y, width, height);
}
