// Where a pane looks from: what the wheel, the mouse, fingers and keys move.

import { select } from "d3-selection";
import { type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import type { Box } from "../layout/layout";

// Letters are too small to be read below this.
export const NEAR = 0.4;
const SCALES: [number, number] = [0.002, 2.5];
// At which a card is shown that was too small to be read.
const READING = 0.85;
const REST_MS = 180;
// On the left and below stand the buttons.
const PADDING = { left: 60, right: 28, top: 40, bottom: 28 } as const;
// What is closer to the edge of the window is brought into view.
const EDGE = 8;
const GLIDE_MS = 260;

/** On the way from here to there, since then. */
interface Glide {
  from: ZoomTransform;
  to: ZoomTransform;
  start: number;
}

export interface Watcher {
  moved: () => void;
  rested: () => void;
}

export class Camera {
  transform: ZoomTransform = zoomIdentity;
  size = { width: 0, height: 0 };
  /** Under way by hand or gliding, and not by a jump from here to there. */
  moving = false;
  private readonly zoom = zoom<HTMLElement, unknown>().scaleExtent(SCALES);
  private resting = 0;
  private glide: Glide | null = null;
  private gliding = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly watcher: Watcher,
  ) {
    const moving = this.zoom.on("zoom", ({ transform, sourceEvent }: { transform: ZoomTransform; sourceEvent: unknown }) => {
      if (sourceEvent) this.glide = null; // whoever takes hold of the map has it
      this.moved(transform, !!sourceEvent || this.gliding);
    });
    select(host).call(moving).on("dblclick.zoom", null);
  }

  /** The part of the map in view. */
  get view(): Box {
    const { x, y, k } = this.transform;
    return { x: -x / k, y: -y / k, width: this.size.width / k, height: this.size.height / k };
  }

  get aspect(): number {
    return this.size.height ? this.size.width / this.size.height : 1.6;
  }

  /** Measures the window anew; whether it is another one. */
  resized(): boolean {
    const { width, height } = this.host.getBoundingClientRect();
    if (width === this.size.width && height === this.size.height) return false;
    this.size = { width, height };
    return true;
  }

  fit({ x, y, width, height }: Box, glide: boolean): void {
    if (!this.size.width) return;
    const room = {
      width: this.size.width - PADDING.left - PADDING.right,
      height: this.size.height - PADDING.top - PADDING.bottom,
    };
    const scale = Math.max(SCALES[0], Math.min(room.width / width, room.height / height, 1));
    const left = PADDING.left + (room.width - width * scale) / 2 - x * scale;
    const top = PADDING.top + (room.height - height * scale) / 2 - y * scale;
    this.place(zoomIdentity.translate(left, top).scale(scale), glide);
  }

  /** Brings a card into view if it is not, at a scale to be read. */
  reveal(place: Box, glide: boolean): void {
    const { k, x, y } = this.glide?.to ?? this.transform;
    const [left, top] = [place.x * k + x, place.y * k + y];
    const [right, bottom] = [left + place.width * k, top + place.height * k];
    const whole = left >= EDGE && top >= EDGE && right <= this.size.width - EDGE && bottom <= this.size.height - EDGE;
    if (k >= NEAR && whole) return;
    const scale = k < NEAR ? READING : k;
    this.centre({ x: place.x + place.width / 2, y: place.y + place.height / 2 }, scale, glide);
  }

  centre(point: { x: number; y: number }, scale: number, glide: boolean): void {
    const left = this.size.width / 2 - point.x * scale;
    const top = this.size.height / 2 - point.y * scale;
    this.place(zoomIdentity.translate(left, top).scale(scale), glide);
  }

  scaleBy(factor: number): void {
    this.arrive();
    this.zoom.scaleBy(select(this.host), factor);
  }

  /** By so many pixels. */
  panBy(x: number, y: number): void {
    this.arrive();
    this.zoom.translateBy(select(this.host), x / this.transform.k, y / this.transform.k);
  }

  /** By so much of the map, at once; what glides goes on. */
  shift(x: number, y: number): void {
    const { glide } = this;
    this.place(this.transform.translate(x, y), false);
    if (glide) this.begin({ ...glide, from: glide.from.translate(x, y), to: glide.to.translate(x, y) });
  }

  private place(transform: ZoomTransform, glide: boolean): void {
    const calm = !glide || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.glide = null;
    if (calm) this.zoom.transform(select(this.host), transform);
    else this.begin({ from: this.transform, to: transform, start: performance.now() });
  }

  private begin(glide: Glide): void {
    this.glide = glide;
    this.step(glide);
  }

  private step(glide: Glide): void {
    if (glide !== this.glide) return;
    const { from, to, start } = glide;
    const part = Math.min(1, (performance.now() - start) / GLIDE_MS);
    if (part === 1) this.glide = null;
    this.gliding = true;
    this.zoom.transform(select(this.host), part === 1 ? to : between(from, to, 1 - (1 - part) ** 3));
    this.gliding = false;
    if (part < 1) requestAnimationFrame(() => this.step(glide));
  }

  /** Where it glides, at once. */
  private arrive(): void {
    if (this.glide) this.place(this.glide.to, false);
  }

  private moved(transform: ZoomTransform, moving: boolean): void {
    this.transform = transform;
    this.moving ||= moving;
    window.clearTimeout(this.resting);
    this.resting = window.setTimeout(() => {
      this.moving = false;
      this.watcher.rested();
    }, REST_MS);
    this.watcher.moved();
  }
}

function between(from: ZoomTransform, to: ZoomTransform, eased: number): ZoomTransform {
  // Scales run evenly as factors, not as differences.
  const k = from.k * (to.k / from.k) ** eased;
  const along = Math.abs(to.k - from.k) < 1e-6 ? eased : (k - from.k) / (to.k - from.k);
  return zoomIdentity.translate(from.x + (to.x - from.x) * along, from.y + (to.y - from.y) * along).scale(k);
}
