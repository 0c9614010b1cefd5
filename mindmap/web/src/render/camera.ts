// Viewpoint of a pane, moved by wheel, mouse, touch and keys.

import { select } from "d3-selection";
import { type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import type { Box, Size } from "../layout/geometry";
import { computeScale, OPENING_SCALE } from "../layout/layout";

// Below this scale, text on cards is too small to read.
export const MIN_TEXT_SCALE = 0.4;
const SCALE_LIMITS: [number, number] = [0.002, 2.5];
// Scale at which a card is revealed whose text was too small to read.
const REVEAL_SCALE = 1;
// The view is at rest after this time without a move.
const REST_MS = 180;
// Pixels around a fitted map.
const PADDING = 14;
// A card closer to the edge of the window counts as not visible.
const EDGE_PIXELS = 8;
const ANIMATION_MS = 260;

/** Animated move between two transforms. `start`: value of `performance.now()` at the start. */
interface Animation {
  from: ZoomTransform;
  to: ZoomTransform;
  start: number;
}

export interface CameraListener {
  /** A gesture of the user has moved the view. */
  onGesture: () => void;
  onMove: () => void;
  onRest: () => void;
}

export class Camera {
  transform: ZoomTransform = zoomIdentity;
  size = { width: 0, height: 0 };
  /** True during a gesture or an animation, but not for instant moves. */
  isMoving = false;
  private readonly zoom = zoom<HTMLElement, unknown>().scaleExtent(SCALE_LIMITS);
  private restTimer = 0;
  private animation: Animation | null = null;
  /** Kind of the move that the page itself is making now; null if it makes none, so that a move is a gesture. */
  private ownMove: "instant" | "animated" | null = null;

  constructor(
    private readonly host: HTMLElement,
    private readonly listener: CameraListener,
  ) {
    const zoomBehaviour = this.zoom.on("zoom", ({ transform }: { transform: ZoomTransform }) => {
      // d3's `sourceEvent` does not tell gestures from the page's own moves: until a wheel gesture ends, these moves have
      // the wheel event, too.
      if (!this.ownMove) {
        this.animation = null; // a gesture ends the animation
        this.listener.onGesture();
      }
      this.onZoom(transform, this.ownMove !== "instant");
    });
    select(host).call(zoomBehaviour).on("dblclick.zoom", null);
  }

  /** The visible part of the map. */
  get view(): Box {
    const { x, y, k } = this.transform;
    return { x: -x / k, y: -y / k, width: this.size.width / k, height: this.size.height / k };
  }

  /** The size of the pane without the padding around a fitted map, in pixels. */
  get availableSize(): Size {
    return { width: Math.max(1, this.size.width - 2 * PADDING), height: Math.max(1, this.size.height - 2 * PADDING) };
  }

  /** Updates the size; returns true if it has changed. */
  updateSize(): boolean {
    const { width, height } = this.host.getBoundingClientRect();
    if (width === this.size.width && height === this.size.height) return false;
    this.size = { width, height };
    return true;
  }

  /** Shows all of a box, at the top of the window. */
  fit(box: Box, isAnimated: boolean): void {
    if (!this.size.width) return;
    const scale = Math.max(SCALE_LIMITS[0], computeScale(box, this.availableSize));
    const left = (this.size.width - box.width * scale) / 2 - box.x * scale;
    this.setTransform(zoomIdentity.translate(left, PADDING - box.y * scale).scale(scale), isAnimated);
  }

  /**
   * Shows a box at OPENING_SCALE or larger. If the box does not fit, shows its upper left part, moved as far as needed to
   * show the `focus` boxes. The last of these boxes has priority.
   */
  fitAtOpeningScale(box: Box, focus: Box[], isAnimated: boolean): void {
    const { width, height } = this.availableSize;
    const scale = Math.max(OPENING_SCALE, computeScale(box, this.availableSize));
    let [left, top] = [box.x, box.y];
    for (const { x, y, width: boxWidth, height: boxHeight } of focus) {
      left = Math.min(Math.max(left, x + boxWidth - width / scale), x);
      top = Math.min(Math.max(top, y + boxHeight - height / scale), y);
    }
    this.setTransform(zoomIdentity.translate(PADDING - left * scale, PADDING - top * scale).scale(scale), isAnimated);
  }

  /** Moves a card into view, and enlarges it if its text is too small to read. Returns true if this changes the scale. */
  reveal(box: Box, isAnimated: boolean): boolean {
    const { k, x, y } = this.animation?.to ?? this.transform;
    const [left, top] = [box.x * k + x, box.y * k + y];
    const [right, bottom] = [left + box.width * k, top + box.height * k];
    const isVisible = left >= EDGE_PIXELS && top >= EDGE_PIXELS && right <= this.size.width - EDGE_PIXELS && bottom <= this.size.height - EDGE_PIXELS;
    if (k >= MIN_TEXT_SCALE && isVisible) return false;
    const scale = k < MIN_TEXT_SCALE ? REVEAL_SCALE : k;
    this.centre({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, scale, isAnimated);
    return scale !== k;
  }

  centre(point: { x: number; y: number }, scale: number, isAnimated: boolean): void {
    const left = this.size.width / 2 - point.x * scale;
    const top = this.size.height / 2 - point.y * scale;
    this.setTransform(zoomIdentity.translate(left, top).scale(scale), isAnimated);
  }

  scaleBy(factor: number): void {
    this.finishAnimation();
    this.listener.onGesture();
    this.move("instant", () => this.zoom.scaleBy(select(this.host), factor));
  }

  /** Moves the view by pixels. */
  panBy(x: number, y: number): void {
    this.finishAnimation();
    this.listener.onGesture();
    this.move("instant", () => this.zoom.translateBy(select(this.host), x / this.transform.k, y / this.transform.k));
  }

  /** Moves the view by map units at once; a running animation continues. */
  shift(x: number, y: number): void {
    const { animation } = this;
    this.setTransform(this.transform.translate(x, y), false);
    if (animation) this.startAnimation({ ...animation, from: animation.from.translate(x, y), to: animation.to.translate(x, y) });
  }

  private setTransform(transform: ZoomTransform, isAnimated: boolean): void {
    // Nothing to do if the view is or soon will be there. An instant move still ends an animation that leads there.
    if (isSameView(transform, this.animation?.to ?? this.transform) && (isAnimated || !this.animation)) return;
    const isInstant = !isAnimated || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.animation = null;
    if (isInstant) this.move("instant", () => this.zoom.transform(select(this.host), transform));
    else this.startAnimation({ from: this.transform, to: transform, start: performance.now() });
  }

  /** Runs a move that is not a gesture. */
  private move(kind: "instant" | "animated", run: () => void): void {
    this.ownMove = kind;
    run();
    this.ownMove = null;
  }

  private startAnimation(animation: Animation): void {
    this.animation = animation;
    this.animate(animation);
  }

  private animate(animation: Animation): void {
    if (animation !== this.animation) return;
    const { from, to, start } = animation;
    const progress = Math.min(1, (performance.now() - start) / ANIMATION_MS);
    if (progress === 1) this.animation = null;
    this.move("animated", () => this.zoom.transform(select(this.host), progress === 1 ? to : interpolate(from, to, 1 - (1 - progress) ** 3)));
    if (progress < 1) requestAnimationFrame(() => this.animate(animation));
  }

  /** Jumps to the end of a running animation. */
  private finishAnimation(): void {
    if (this.animation) this.setTransform(this.animation.to, false);
  }

  private onZoom(transform: ZoomTransform, isMoving: boolean): void {
    this.transform = transform;
    this.isMoving ||= isMoving;
    window.clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => {
      this.isMoving = false;
      this.listener.onRest();
    }, REST_MS);
    this.listener.onMove();
  }
}

/** Checks whether two transforms place the map within about a hundredth of a pixel. */
const isSameView = (a: ZoomTransform, b: ZoomTransform): boolean =>
  Math.abs(a.x - b.x) < 0.01 && Math.abs(a.y - b.y) < 0.01 && Math.abs(a.k / b.k - 1) < 1e-5;

function interpolate(from: ZoomTransform, to: ZoomTransform, progress: number): ZoomTransform {
  // Equal ratios of the scale, not equal differences, look like a uniform zoom.
  const k = from.k * (to.k / from.k) ** progress;
  const fraction = Math.abs(to.k - from.k) < 1e-6 ? progress : (k - from.k) / (to.k - from.k);
  return zoomIdentity.translate(from.x + (to.x - from.x) * fraction, from.y + (to.y - from.y) * fraction).scale(k);
}
