// Interactive drawing of one pane.
//
// Drawing takes tens of milliseconds, moving a finished drawing almost nothing. So the surface extends beyond the view
// and is transformed as a whole during gestures. The backdrop shows newly uncovered parts until they are drawn in time
// slices. At rest everything is redrawn sharply.

import type { ZoomTransform } from "d3-zoom";
import type { Drawing } from "../layout/drawing";
import { type Box, type Layout, type PlacedCard, intersects } from "../layout/layout";
import type { Measure } from "../layout/text";
import { Backdrop } from "./backdrop";
import { Camera } from "./camera";
import { type Highlight, HighlightStyles, NO_HIGHLIGHT, isSameHighlight } from "./highlights";
import { Surface, distance, centreOf } from "./surface";

export interface SceneCallbacks {
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  hover: (id: string | null) => void;
  onMove: () => void;
}

// Drawn beyond the view on each side, as a fraction of it, so that short pans need no redraw.
const MARGIN = 0.3;
// Scale factors at which the surface is redrawn. During a gesture the eye follows the movement, not the text.
const MAX_STRETCH = { still: 1.6, moving: 3.5, shrinking: 5 } as const;
// A gesture that changes the scale by less than this is a pan.
const PAN_TOLERANCE = 1.02;

interface DrawnRegion {
  box: Box;
  transform: ZoomTransform;
}

export class Scene {
  private readonly surface: Surface;
  private readonly shield = document.createElement("div");
  private readonly backdrop = new Backdrop();
  private readonly camera: Camera;
  private drawing: Drawing | null = null;
  private highlight: Highlight = NO_HIGHLIGHT;
  private highlightStyles = new HighlightStyles(NO_HIGHLIGHT, new Map());
  private drawnRegion: DrawnRegion | null = null;
  private isComplete = true;
  private frameRequest = 0;

  constructor(
    host: HTMLElement,
    prefix: string,
    measure: Measure,
    private readonly callbacks: SceneCallbacks,
  ) {
    this.surface = new Surface(prefix, measure);
    const { svg } = this.surface;
    this.shield.className = "shield";
    this.shield.hidden = true;
    host.append(this.backdrop.canvas, svg, this.shield);
    this.camera = new Camera(host, { onMove: () => this.onCameraMove(), onRest: () => this.onCameraRest() });
    svg.addEventListener("click", (event) => this.onClick(event));
    svg.addEventListener("pointerover", (event) => callbacks.hover(nodeIdAt(event)));
    svg.addEventListener("pointerleave", () => callbacks.hover(null));
    this.onResize();
  }

  // ---- content

  show(drawing: Drawing): void {
    const previous = this.drawing;
    const offset = previous && this.findOffset(previous, drawing);
    this.drawing = drawing;
    this.updateHighlights();
    this.redrawAll();
    if (offset) this.camera.shift(offset.x, offset.y);
  }

  setHighlight(highlight: Highlight): void {
    if (isSameHighlight(highlight, this.highlight)) return;
    const { only, selected } = this.highlight;
    this.highlight = highlight;
    this.updateHighlights();
    if (highlight.only !== only) this.redrawAll();
    else if (highlight.selected !== selected) this.drawnRegion = null;
    this.scheduleDraw();
  }

  private updateHighlights(): void {
    this.highlightStyles = new HighlightStyles(this.highlight, this.drawing?.visibleIdOf ?? new Map());
    this.surface.applyHighlights(this.highlightStyles);
  }

  onResize(): void {
    const selected = this.findCard(this.highlight.selected);
    const wasVisible = selected && contains(this.view, selected);
    if (!this.camera.updateSize()) return;
    // An opening panel must not cover the selected card.
    if (wasVisible && !contains(this.view, selected)) this.centreOn(centreOf(selected));
    const { width, height } = this.camera.size;
    this.surface.svg.setAttribute("width", String(width * (1 + 2 * MARGIN)));
    this.surface.svg.setAttribute("height", String(height * (1 + 2 * MARGIN)));
    this.redrawAll();
  }

  /** Redraws everything including the backdrop, after a change of layout or colours. */
  redrawAll(): void {
    this.drawnRegion = null;
    this.backdrop.invalidate();
    this.scheduleDraw();
  }

  get view(): Box {
    return this.camera.view;
  }

  get aspect(): number {
    return this.camera.aspect;
  }

  get currentDrawing(): Drawing | null {
    return this.drawing;
  }

  get layout(): Layout | null {
    return this.drawing?.layout ?? null;
  }

  findCard(id: string | null): PlacedCard | null {
    return this.drawing?.layout.cards.get(this.drawing.visibleIdOf.get(id ?? "") ?? "") ?? null;
  }

  // ---- moving

  fit(isAnimated = true): void {
    if (this.drawing) this.camera.fit(this.drawing.layout.bounds, isAnimated);
  }

  reveal(id: string, isAnimated = true): void {
    const placed = this.findCard(id);
    if (placed) this.camera.reveal(placed, isAnimated);
  }

  /** Centres a point at the current scale, without animation. */
  centreOn(point: { x: number; y: number }): void {
    this.camera.centre(point, this.camera.transform.k, false);
  }

  scaleBy(factor: number): void {
    this.camera.scaleBy(factor);
  }

  panBy(x: number, y: number): void {
    this.camera.panBy(x, y);
  }

  private onCameraMove(): void {
    if (this.camera.isMoving && this.shield.hidden) this.setMoving(true);
    this.scheduleDraw();
    this.callbacks.onMove();
  }

  private onCameraRest(): void {
    this.setMoving(false);
    const { drawnRegion } = this;
    if (drawnRegion && (drawnRegion.transform.k !== this.camera.transform.k || !contains(drawnRegion.box, this.view))) this.drawnRegion = null;
    this.scheduleDraw();
  }

  private setMoving(isMoving: boolean): void {
    // Covers the cards to suppress hovering. A class on the drawing would restyle every card.
    this.shield.hidden = !isMoving;
    this.surface.setMoving(isMoving);
  }

  /** Returns how far the selected or most central card has moved between two layouts. */
  private findOffset(before: Drawing, after: Drawing): { x: number; y: number } | null {
    const { view } = this;
    const centre = centreOf(view);
    let best: { id: string; offset: number } | null = null;
    for (const [id, placed] of before.layout.cards) {
      if (!after.layout.cards.has(id) || !intersects(placed, view)) continue;
      const offset = id === this.highlight.selected ? -1 : distance(placed, centre);
      if (!best || offset < best.offset) best = { id, offset };
    }
    if (!best) return null;
    const [previous, current] = [before.layout.cards.get(best.id)!, after.layout.cards.get(best.id)!];
    return { x: previous.x - current.x, y: previous.y - current.y };
  }

  // ---- drawing

  private scheduleDraw(): void {
    this.frameRequest ||= requestAnimationFrame(() => {
      this.frameRequest = 0;
      this.draw();
    });
  }

  private draw(): void {
    if (!this.drawing || !this.camera.size.width) return;
    if (this.isStale()) this.redraw(this.drawing);
    else if (!this.isComplete) this.drawPending();
    this.moveSurface(this.drawnRegion!);
  }

  /** Returns true if the drawn region no longer suits the view. */
  private isStale(): boolean {
    if (!this.drawnRegion) return true;
    const stretch = this.camera.transform.k / this.drawnRegion.transform.k;
    const isOutside = !contains(this.drawnRegion.box, this.view);
    if (!this.camera.isMoving) return isOutside || stretch > MAX_STRETCH.still || stretch < 1 / MAX_STRETCH.still;
    const isPanning = stretch < PAN_TOLERANCE && stretch > 1 / PAN_TOLERANCE;
    return (isPanning && isOutside) || stretch > MAX_STRETCH.moving || stretch < 1 / MAX_STRETCH.shrinking;
  }

  private moveSurface({ transform: drawnAt, box }: DrawnRegion): void {
    const { transform, size } = this.camera;
    const factor = transform.k / drawnAt.k;
    const left = transform.x - factor * (drawnAt.x + size.width * MARGIN);
    const top = transform.y - factor * (drawnAt.y + size.height * MARGIN);
    this.surface.svg.style.transform = `translate(${left}px, ${top}px) scale(${factor})`;
    if (this.isComplete && contains(box, this.view)) this.backdrop.hide();
    else this.showBackdrop(this.drawing!);
  }

  private showBackdrop(drawing: Drawing): void {
    if (!this.backdrop.isPainted) this.backdrop.paint(drawing, (id) => this.highlightStyles.isFaded(id));
    this.backdrop.show(this.camera.transform);
  }

  private redraw(drawing: Drawing): void {
    const { transform, size } = this.camera;
    const stretch = this.drawnRegion && transform.k / this.drawnRegion.transform.k;
    // While zooming, draw the view only: it is redrawn before its surroundings become visible.
    const isZooming = this.camera.isMoving && stretch && Math.abs(Math.log(stretch)) > 0.1;
    this.drawnRegion = { box: expandBox(this.view, isZooming ? 0.02 : MARGIN), transform };
    const corner = { x: transform.x + size.width * MARGIN, y: transform.y + size.height * MARGIN, k: transform.k };
    this.surface.draw(drawing, this.drawnRegion.box, corner);
    this.drawPending();
  }

  private drawPending(): void {
    this.isComplete = this.surface.drawPending();
    if (!this.isComplete) this.scheduleDraw();
  }

  private onClick(event: Event): void {
    const id = nodeIdAt(event);
    if (id && (event.target as Element).closest(".toggle")) this.callbacks.toggle(id);
    else this.callbacks.select(id);
  }
}

const nodeIdAt = (event: Event): string | null =>
  (event.target as Element).closest<SVGGElement>(".card")?.dataset["id"] ?? null;

const contains = (outer: Box, inner: Box): boolean =>
  outer.x <= inner.x &&
  outer.y <= inner.y &&
  outer.x + outer.width >= inner.x + inner.width &&
  outer.y + outer.height >= inner.y + inner.height;

const expandBox = ({ x, y, width, height }: Box, by: number): Box => ({
  x: x - width * by,
  y: y - height * by,
  width: width * (1 + 2 * by),
  height: height * (1 + 2 * by),
});
