// One pane's drawing as a person moves in it.
//
// Drawing costs tens of milliseconds, moving what is drawn next to nothing. So the sheet reaches beyond the view and is
// moved as a whole while a person pans and zooms; what a gesture uncovers is seen on the backdrop until it is drawn,
// slice by slice. Everything is drawn sharp again when it rests.

import type { ZoomTransform } from "d3-zoom";
import type { Drawing } from "../layout/drawing";
import { type Box, type Layout, type Place, meets } from "../layout/layout";
import type { Measure } from "../layout/text";
import { Backdrop } from "./backdrop";
import { Camera } from "./camera";
import { type Look, Marks, PLAIN, isSame } from "./marks";
import { Sheet, distance, middle } from "./sheet";

export interface Wishes {
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  point: (id: string | null) => void;
  moved: () => void;
}

// Beside what is in view, so that a little panning draws nothing anew: this part of the view on each side.
const BESIDE = 0.3;
// What is drawn may be stretched or shrunk so far before it is drawn anew; further in the middle of a gesture, where
// the eye follows the movement and not the letters.
const STRETCH = { still: 1.6, moving: 3.5, shrinking: 5 } as const;
// A gesture that keeps the scale within this pans.
const PANNING = 1.02;

interface Covered {
  box: Box;
  at: ZoomTransform;
}

export class Scene {
  private readonly sheet: Sheet;
  private readonly shield = document.createElement("div");
  private readonly backdrop = new Backdrop();
  private readonly camera: Camera;
  private drawing: Drawing | null = null;
  private look: Look = PLAIN;
  private marks = new Marks(PLAIN, new Map());
  private covered: Covered | null = null;
  private isWhole = true;
  private waiting = 0;

  constructor(
    host: HTMLElement,
    prefix: string,
    measure: Measure,
    private readonly wishes: Wishes,
  ) {
    this.sheet = new Sheet(prefix, measure);
    const { svg } = this.sheet;
    this.shield.className = "shield";
    this.shield.hidden = true;
    host.append(this.backdrop.canvas, svg, this.shield);
    this.camera = new Camera(host, { moved: () => this.moved(), rested: () => this.rested() });
    svg.addEventListener("click", (event) => this.clicked(event));
    svg.addEventListener("pointerover", (event) => wishes.point(idAt(event)));
    svg.addEventListener("pointerleave", () => wishes.point(null));
    this.resized();
  }

  // ---- what is shown

  show(drawing: Drawing): void {
    const before = this.drawing;
    const anchor = before && this.anchor(before, drawing);
    this.drawing = drawing;
    this.marked();
    this.anew();
    if (anchor) this.camera.shift(anchor.x, anchor.y);
  }

  mark(look: Look): void {
    if (isSame(look, this.look)) return;
    const { only, selected } = this.look;
    this.look = look;
    this.marked();
    if (look.only !== only) this.anew();
    else if (look.selected !== selected) this.covered = null;
    this.later();
  }

  private marked(): void {
    this.marks = new Marks(this.look, this.drawing?.home ?? new Map());
    this.sheet.mark(this.marks);
  }

  resized(): void {
    const selected = this.placeOf(this.look.selected);
    const seen = selected && contains(this.view, selected);
    if (!this.camera.resized()) return;
    // A panel that opens must not cover what it tells of.
    if (seen && !contains(this.view, selected)) this.centre(middle(selected));
    const { width, height } = this.camera.size;
    this.sheet.svg.setAttribute("width", String(width * (1 + 2 * BESIDE)));
    this.sheet.svg.setAttribute("height", String(height * (1 + 2 * BESIDE)));
    this.anew();
  }

  /** Draws all of it again, the backdrop too: another layout, other colours. */
  anew(): void {
    this.covered = null;
    this.backdrop.forget();
    this.later();
  }

  get view(): Box {
    return this.camera.view;
  }

  get aspect(): number {
    return this.camera.aspect;
  }

  get shown(): Drawing | null {
    return this.drawing;
  }

  get layout(): Layout | null {
    return this.drawing?.layout ?? null;
  }

  placeOf(id: string | null): Place | null {
    return this.drawing?.layout.places.get(this.drawing.home.get(id ?? "") ?? "") ?? null;
  }

  // ---- moving

  fit(glide = true): void {
    if (this.drawing) this.camera.fit(this.drawing.layout.bounds, glide);
  }

  reveal(id: string, glide = true): void {
    const place = this.placeOf(id);
    if (place) this.camera.reveal(place, glide);
  }

  /** At the scale of the moment, at once. */
  centre(point: { x: number; y: number }): void {
    this.camera.centre(point, this.camera.transform.k, false);
  }

  scaleBy(factor: number): void {
    this.camera.scaleBy(factor);
  }

  panBy(x: number, y: number): void {
    this.camera.panBy(x, y);
  }

  private moved(): void {
    if (this.camera.moving && this.shield.hidden) this.setMoving(true);
    this.later();
    this.wishes.moved();
  }

  private rested(): void {
    this.setMoving(false);
    const { covered } = this;
    if (covered && (covered.at.k !== this.camera.transform.k || !contains(covered.box, this.view))) this.covered = null;
    this.later();
  }

  private setMoving(on: boolean): void {
    // Above the cards, so that none is pointed at meanwhile: a class on the drawing would style each of them anew.
    this.shield.hidden = !on;
    this.sheet.setMoving(on);
  }

  /** How far what a person looks at has moved from one layout to the next. */
  private anchor(before: Drawing, after: Drawing): { x: number; y: number } | null {
    const { view } = this;
    const centre = middle(view);
    let best: { id: string; off: number } | null = null;
    for (const [id, place] of before.layout.places) {
      if (!after.layout.places.has(id) || !meets(place, view)) continue;
      const off = id === this.look.selected ? -1 : distance(place, centre);
      if (!best || off < best.off) best = { id, off };
    }
    if (!best) return null;
    const [old, now] = [before.layout.places.get(best.id)!, after.layout.places.get(best.id)!];
    return { x: old.x - now.x, y: old.y - now.y };
  }

  // ---- drawing

  private later(): void {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  private draw(): void {
    if (!this.drawing || !this.camera.size.width) return;
    if (this.isStale()) this.redraw(this.drawing);
    else if (!this.isWhole) this.fill();
    this.moveTo(this.covered!);
  }

  /** Whether what is drawn does not do any more for what is in view. */
  private isStale(): boolean {
    if (!this.covered) return true;
    const stretch = this.camera.transform.k / this.covered.at.k;
    const outside = !contains(this.covered.box, this.view);
    if (!this.camera.moving) return outside || stretch > STRETCH.still || stretch < 1 / STRETCH.still;
    const panning = stretch < PANNING && stretch > 1 / PANNING;
    return (panning && outside) || stretch > STRETCH.moving || stretch < 1 / STRETCH.shrinking;
  }

  private moveTo({ at, box }: Covered): void {
    const { transform, size } = this.camera;
    const factor = transform.k / at.k;
    const left = transform.x - factor * (at.x + size.width * BESIDE);
    const top = transform.y - factor * (at.y + size.height * BESIDE);
    this.sheet.svg.style.transform = `translate(${left}px, ${top}px) scale(${factor})`;
    if (this.isWhole && contains(box, this.view)) this.backdrop.hide();
    else this.showBackdrop(this.drawing!);
  }

  private showBackdrop(drawing: Drawing): void {
    if (!this.backdrop.isPainted) this.backdrop.paint(drawing, (id) => this.marks.isFaded(id));
    this.backdrop.show(this.camera.transform);
  }

  private redraw(drawing: Drawing): void {
    const { transform, size } = this.camera;
    const turned = this.covered && transform.k / this.covered.at.k;
    // In the middle of zooming no more than the view: by the time its surroundings are in it, they are drawn anew.
    const zooming = this.camera.moving && turned && Math.abs(Math.log(turned)) > 0.1;
    this.covered = { box: widened(this.view, zooming ? 0.02 : BESIDE), at: transform };
    const corner = { x: transform.x + size.width * BESIDE, y: transform.y + size.height * BESIDE, k: transform.k };
    this.sheet.draw(drawing, this.covered.box, corner);
    this.fill();
  }

  private fill(): void {
    this.isWhole = this.sheet.fill();
    if (!this.isWhole) this.later();
  }

  private clicked(event: Event): void {
    const id = idAt(event);
    if (id && (event.target as Element).closest(".toggle")) this.wishes.toggle(id);
    else this.wishes.select(id);
  }
}

const idAt = (event: Event): string | null =>
  (event.target as Element).closest<SVGGElement>(".card")?.dataset["id"] ?? null;

const contains = (outer: Box, inner: Box): boolean =>
  outer.x <= inner.x &&
  outer.y <= inner.y &&
  outer.x + outer.width >= inner.x + inner.width &&
  outer.y + outer.height >= inner.y + inner.height;

const widened = ({ x, y, width, height }: Box, by: number): Box => ({
  x: x - width * by,
  y: y - height * by,
  width: width * (1 + 2 * by),
  height: height * (1 + 2 * by),
});
