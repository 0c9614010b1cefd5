// Backdrop of a pane, and the style sheet's colours for canvases and exported files.

import type { MapNode } from "../api/types";
import type { Box } from "../layout/geometry";
import type { PlacedCard } from "../layout/layout";
import type { Drawing } from "../layout/links";
import { getStatus, isModelNode } from "../model/tree";

let colourByProperty = new Map<string, string>();

/** Returns the current value of a CSS custom property with a colour, in the light or dark theme. */
export function resolveColour(name: string): string {
  let value = colourByProperty.get(name);
  if (value === undefined) colourByProperty.set(name, (value = computeColour(name)));
  return value;
}

function computeColour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

export function clearColourCache(): void {
  colourByProperty = new Map();
}

/** Returns the name of the CSS property with the colour of a node's status or type, for the minimap and the backdrop. */
export function getColourProperty(node: MapNode): string {
  const status = getStatus(node);
  return status ? `--mark-${status.replace(/_/gu, "-")}` : isModelNode(node) ? "--mark-model" : "--mark-plain";
}

// Maximum size of the backdrop's canvas. A pixel takes four bytes, so this is six megabytes.
const MAX_PIXELS = 1_500_000;
// Maximum scale of the backdrop. A low resolution is enough, because it is shown only until cards are drawn.
const MAX_SCALE = 0.5;

/** Low-resolution picture of the map behind the drawing, which is visible until newly uncovered cards are drawn. */
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
