// Interactive rendering of one pane.
//
// Drawing takes tens of milliseconds, moving a finished drawing almost nothing. So the surface extends beyond the view
// and is transformed as a whole during gestures. The backdrop shows newly uncovered parts until they are drawn in time
// slices. At rest everything is redrawn sharply.

import type { ZoomTransform } from "d3-zoom";
import type { Measure } from "../layout/card";
import { type Box, type Size, computeCentre, computeDistance, contains, intersects } from "../layout/geometry";
import { type Layout, type PlacedCard, fitsAtOpeningScale, OPENING_SCALE } from "../layout/layout";
import type { Drawing } from "../layout/links";
import { Camera } from "./camera";
import { Backdrop } from "./canvas";
import { type Highlight, HighlightStyles, isSameHighlight, NO_HIGHLIGHT } from "./highlights";
import { Surface } from "./surface";

/** Reactions to clicks, hovering and moves. `id` is null outside the cards. */
export interface SceneCallbacks {
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  zoom: (id: string) => void;
  hover: (id: string | null) => void;
  onMove: () => void;
}

// The surface extends beyond each side of the view by this fraction of the view, so that short pans need no redraw.
const MARGIN = 0.3;
// A change of the scale by more than this factor redraws the surface. The factor is larger while the user zooms in (`moving`)
// or out (`shrinking`), because the eye then follows the movement, not the text.
const MAX_SCALE_CHANGE = { still: 1.6, moving: 3.5, shrinking: 5 } as const;
// A gesture that changes the scale by less than this is a pan.
const PAN_TOLERANCE = 1.02;

/** What the view follows: the map at OPENING_SCALE or larger, all cards at any scale, or nothing after a move by the user. */
type ViewMode = "readable" | "all" | "free";

/** Part of the map that the surface shows, and the transform for which it was drawn. */
interface DrawnRegion {
  box: Box;
  transform: ZoomTransform;
}

export class Scene {
  private readonly surface: Surface;
  private readonly hoverShield = document.createElement("div");
  private readonly backdrop = new Backdrop();
  private readonly camera: Camera;
  private drawing: Drawing | null = null;
  private highlight: Highlight = NO_HIGHLIGHT;
  private highlightStyles = new HighlightStyles(NO_HIGHLIGHT, new Map());
  private drawnRegion: DrawnRegion | null = null;
  /** True if all elements of the drawn region are drawn. */
  private isComplete = true;
  private mode: ViewMode = "readable";
  private focus: readonly string[] = [];
  /** Node whose card the next drawing keeps in view. */
  private anchor: string | null = null;
  private isAnimationSkipped = false;
  private frameRequest = 0;

  constructor(
    host: HTMLElement,
    prefix: string,
    measure: Measure,
    private readonly callbacks: SceneCallbacks,
  ) {
    this.surface = new Surface(prefix, measure);
    const { svg } = this.surface;
    this.hoverShield.className = "shield";
    this.hoverShield.hidden = true;
    host.append(this.backdrop.canvas, svg, this.hoverShield);
    this.camera = new Camera(host, {
      onGesture: () => (this.mode = "free"),
      onMove: () => this.onCameraMove(),
      onRest: () => this.onCameraRest(),
    });
    svg.addEventListener("click", (event) => this.onClick(event));
    svg.addEventListener("dblclick", (event) => {
      const id = findNodeId(event);
      if (id && !isOnToggle(event)) callbacks.zoom(id);
    });
    svg.addEventListener("pointerover", (event) => callbacks.hover(findNodeId(event)));
    svg.addEventListener("pointerleave", (event) => isCrossLink(event.relatedTarget) || callbacks.hover(null));
    this.onResize();
  }

  // ---- content

  /** Shows a drawing. Unless the user has moved the view, it follows the drawing; the last node of `focus` stays in view. */
  show(drawing: Drawing, focus: readonly string[]): void {
    const previous = this.drawing;
    const offset = previous && this.findOffset(previous, drawing);
    this.drawing = drawing;
    this.focus = this.anchor ? [...focus, this.anchor] : focus;
    this.anchor = null;
    this.updateHighlights();
    this.redrawAll();
    if (this.mode === "free" && offset) this.camera.shift(offset.x, offset.y);
    else if (this.mode !== "free") this.follow(!!previous && !this.isAnimationSkipped);
    this.isAnimationSkipped = false;
  }

  /** Keeps a card in view in the next drawing, and in its place if the view does not follow the map. */
  anchorTo(id: string): void {
    if (this.layout?.cards.has(id)) this.anchor = id;
  }

  /** Makes the view follow the next drawing without animation. */
  skipAnimation(): void {
    this.isAnimationSkipped = true;
  }

  /** True until the user moves the view, and again after `fit`. */
  get isFollowing(): boolean {
    return this.mode !== "free";
  }

  private follow(isAnimated: boolean): void {
    const { layout } = this.drawing!;
    const focus = this.focus.flatMap((id) => this.findCard(id) ?? []);
    if (this.mode === "all" && !fitsAtOpeningScale(layout, this.availableSize)) this.camera.fit(layout.bounds, isAnimated);
    else this.camera.fitAtOpeningScale(layout.bounds, focus, isAnimated);
  }

  setHighlight(highlight: Highlight): void {
    if (isSameHighlight(highlight, this.highlight)) return;
    const previous = this.highlight;
    this.highlight = highlight;
    this.updateHighlights();
    if (highlight.unfaded !== previous.unfaded) this.redrawAll();
    else if (highlight.selected !== previous.selected) this.drawnRegion = null; // the selected card is always drawn
    this.scheduleDraw();
  }

  private updateHighlights(): void {
    this.highlightStyles = new HighlightStyles(this.highlight, this.drawing?.visibleIdOf ?? new Map());
    this.surface.applyHighlights(this.highlightStyles);
  }

  /** Adapts to the size of the pane; returns true if the size has changed. */
  onResize(): boolean {
    const selected = this.findCard(this.highlight.selected);
    const wasVisible = selected && contains(this.view, selected);
    if (!this.camera.updateSize()) return false;
    // An opening panel must not cover the selected card.
    if (wasVisible && !this.isFollowing && !contains(this.view, selected)) this.camera.reveal(selected, false);
    const { width, height } = this.camera.size;
    this.surface.svg.setAttribute("width", String(width * (1 + 2 * MARGIN)));
    this.surface.svg.setAttribute("height", String(height * (1 + 2 * MARGIN)));
    this.redrawAll();
    return true;
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

  get availableSize(): Size {
    return this.camera.availableSize;
  }

  get currentDrawing(): Drawing | null {
    return this.drawing;
  }

  get layout(): Layout | null {
    return this.drawing?.layout ?? null;
  }

  /** Returns the card that shows a node; null if none does. */
  findCard(id: string | null): PlacedCard | null {
    return this.drawing?.layout.cards.get(this.drawing.visibleIdOf.get(id ?? "") ?? "") ?? null;
  }

  /** Returns where a box of the map is on the screen, relative to an origin. */
  toScreen({ x, y, width, height }: Box, origin: { x: number; y: number }): Box {
    const { k, x: left, y: top } = this.camera.transform;
    const pane = this.getScreenBox(origin);
    return { x: pane.x + left + x * k, y: pane.y + top + y * k, width: width * k, height: height * k };
  }

  /** Returns where the pane is on the screen, relative to an origin. */
  getScreenBox(origin: { x: number; y: number }): Box {
    const { x, y, width, height } = this.surface.svg.parentElement!.getBoundingClientRect();
    return { x: x - origin.x, y: y - origin.y, width, height };
  }

  // ---- moving

  /** Shows all cards, and follows them again. */
  fit(): void {
    this.mode = "all";
    if (this.drawing) this.follow(true);
  }

  /** Moves a card into view at OPENING_SCALE or larger. */
  zoomTo(id: string): void {
    const placedCard = this.findCard(id);
    if (!placedCard) return;
    if (this.camera.transform.k < OPENING_SCALE) {
      this.mode = "free";
      this.camera.centre(computeCentre(placedCard), 1, true);
    } else this.reveal(id);
  }

  /** Moves a card into view. If this zooms, the view no longer follows the map, which would zoom back. */
  reveal(id: string, isAnimated = true): void {
    const placedCard = this.findCard(id);
    if (placedCard && this.camera.reveal(placedCard, isAnimated)) this.mode = "free";
  }

  /** Centres a point at the current scale, without animation. */
  centreOn(point: { x: number; y: number }): void {
    this.mode = "free";
    this.camera.centre(point, this.camera.transform.k, false);
  }

  scaleBy(factor: number): void {
    this.camera.scaleBy(factor);
  }

  panBy(x: number, y: number): void {
    this.camera.panBy(x, y);
  }

  private onCameraMove(): void {
    if (this.camera.isMoving && this.hoverShield.hidden) this.setMoving(true);
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
    // The shield covers the cards to suppress hovering. A class on the drawing would restyle every card.
    this.hoverShield.hidden = !isMoving;
    this.surface.setMoving(isMoving);
  }

  /**
   * Returns how far to move the view so that a card keeps its place on the screen: the anchor, or else the selected card, if
   * it is in view; otherwise the card nearest to the centre of the view. Returns null if no card in view is in both layouts.
   */
  private findOffset(before: Drawing, after: Drawing): { x: number; y: number } | null {
    const { view } = this;
    const preferredId = this.anchor ?? this.highlight.selected;
    const centre = computeCentre(view);
    let nearest: { id: string; distance: number } | null = null;
    for (const [id, placedCard] of before.layout.cards) {
      if (!after.layout.cards.has(id) || !intersects(placedCard, view)) continue;
      const distance = id === preferredId ? -1 : computeDistance(placedCard, centre);
      if (!nearest || distance < nearest.distance) nearest = { id, distance };
    }
    if (!nearest) return null;
    const [previous, current] = [before.layout.cards.get(nearest.id)!, after.layout.cards.get(nearest.id)!];
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

  /** Checks whether the drawn region no longer suits the view. */
  private isStale(): boolean {
    if (!this.drawnRegion) return true;
    const scaleChange = this.camera.transform.k / this.drawnRegion.transform.k;
    const isOutside = !contains(this.drawnRegion.box, this.view);
    if (!this.camera.isMoving) return isOutside || scaleChange > MAX_SCALE_CHANGE.still || scaleChange < 1 / MAX_SCALE_CHANGE.still;
    const isPanning = scaleChange < PAN_TOLERANCE && scaleChange > 1 / PAN_TOLERANCE;
    return (isPanning && isOutside) || scaleChange > MAX_SCALE_CHANGE.moving || scaleChange < 1 / MAX_SCALE_CHANGE.shrinking;
  }

  private moveSurface({ transform: drawnTransform, box }: DrawnRegion): void {
    const { transform, size } = this.camera;
    const scale = transform.k / drawnTransform.k;
    const left = transform.x - scale * (drawnTransform.x + size.width * MARGIN);
    const top = transform.y - scale * (drawnTransform.y + size.height * MARGIN);
    this.surface.svg.style.transform = `translate(${left}px, ${top}px) scale(${scale})`;
    if (this.isComplete && contains(box, this.view)) this.backdrop.hide();
    else this.showBackdrop(this.drawing!);
  }

  private showBackdrop(drawing: Drawing): void {
    if (!this.backdrop.isPainted) this.backdrop.paint(drawing, (id) => this.highlightStyles.isFaded(id));
    this.backdrop.show(this.camera.transform);
  }

  private redraw(drawing: Drawing): void {
    const { transform, size } = this.camera;
    const scaleChange = this.drawnRegion && transform.k / this.drawnRegion.transform.k;
    // While zooming, draw the view only: it is redrawn before its surroundings become visible.
    const isZooming = this.camera.isMoving && scaleChange && Math.abs(Math.log(scaleChange)) > 0.1;
    this.drawnRegion = { box: expandBox(this.view, isZooming ? 0.02 : MARGIN), transform };
    const contentTransform = { x: transform.x + size.width * MARGIN, y: transform.y + size.height * MARGIN, k: transform.k };
    this.surface.draw(drawing, this.drawnRegion.box, contentTransform);
    this.drawPending();
  }

  private drawPending(): void {
    this.isComplete = this.surface.drawPending();
    if (!this.isComplete) this.scheduleDraw();
  }

  private onClick(event: Event): void {
    const id = findNodeId(event);
    if (id && isOnToggle(event)) this.callbacks.toggle(id);
    else this.callbacks.select(id);
  }
}

const findNodeId = (event: Event): string | null =>
  (event.target as Element).closest<SVGGElement>(".card")?.dataset["id"] ?? null;

// A card stays hovered while the pointer is on one of its links to the other pane.
const isCrossLink = (target: EventTarget | null): boolean => target instanceof Element && target.closest(".cross-links") !== null;

const isOnToggle = (event: Event): boolean => (event.target as Element).closest(".toggle") !== null;

const expandBox = ({ x, y, width, height }: Box, fraction: number): Box => ({
  x: x - width * fraction,
  y: y - height * fraction,
  width: width * (1 + 2 * fraction),
  height: height * (1 + 2 * fraction),
});
