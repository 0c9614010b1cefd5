// One pane's drawing: what is in view at the scale it is seen at, and no more.
//
// Drawing costs tens of milliseconds, moving what is drawn next to nothing. So the drawing reaches beyond the view, is
// moved as a whole while a person pans and zooms, and is made anew when its edge comes near, when the scale has become
// another one, and when everything rests.

import { select } from "d3-selection";
import { type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import type { Freshness } from "../model/changes";
import { type Box, type Layout, type Place, meets } from "../layout/layout";
import type { Route } from "../layout/links";
import type { Measure } from "../layout/text";
import { type Standing, drawnCard } from "./card";
import { merged, names } from "./far";
import { type DrawnLink, branches, drawnLink, roughLinks } from "./links";
import { element } from "./svg";

export interface Drawing {
  layout: Layout;
  routes: Route[];
  /** Node -> the card that shows it: its own, or the one that it is folded away under. */
  home: Map<string, string>;
}

export interface Look {
  selected: string | null;
  pointed: string | null;
  lit: ReadonlySet<string>;
  /** Everything that is not among these steps back; none when nothing does. */
  only: ReadonlySet<string> | null;
  fresh: ReadonlyMap<string, Freshness>;
}

export interface Wishes {
  select: (id: string | null) => void;
  toggle: (id: string) => void;
  point: (id: string | null) => void;
  moved: () => void;
}

// Letters are too small to be read below this.
const NEAR = 0.4;
// Cards drawn one by one; more are merged into a few paths.
const MOST_CARDS = 260;
// Links are long: each is drawn over much of the view.
const MOST_LINKS = 120;
const SCALES: [number, number] = [0.002, 2.5];
// Beside what is in view, so that a little panning draws nothing anew: this part of the view on each side.
const BESIDE = 0.3;
// What is drawn may be stretched so far before it is drawn anew.
const STRETCH = 1.6;
const REST_MS = 180;
// On the left and below stand the buttons.
const PADDING = { left: 60, right: 28, top: 40, bottom: 28 } as const;
const GLIDE_MS = 260;
const LABEL_SIZE = 12;

export class Scene {
  readonly svg: SVGSVGElement;
  private readonly world = element("g", { class: "world", role: "presentation" });
  private readonly branches = element("path", { class: "branches" });
  private readonly boxes = element("g", { class: "boxes", "aria-hidden": "true" });
  private readonly rough = element("g", { class: "rough" });
  private readonly links = element("g", { class: "links", "aria-hidden": "true" });
  private readonly cards = element("g", { class: "cards", role: "presentation" });
  private readonly names = element("g", { class: "names", "aria-hidden": "true" });
  private readonly zoom = zoom<HTMLElement, unknown>().scaleExtent(SCALES);
  private readonly drawn = new Map<string, { group: SVGGElement; place: Place }>();
  private readonly labels = element("g", { class: "labels", "aria-hidden": "true" });
  private readonly drawnRoutes = new Map<string, { drawn: DrawnLink; route: Route }>();
  private transform: ZoomTransform = zoomIdentity;
  private drawing: Drawing | null = null;
  private look: Look = { selected: null, pointed: null, lit: new Set(), only: null, fresh: new Map() };
  private covered: { box: Box; at: ZoomTransform } | null = null;
  private waiting = 0;
  private size = { width: 0, height: 0 };
  private resting = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly prefix: string,
    private readonly measure: Measure,
    private readonly wishes: Wishes,
  ) {
    this.svg = element("svg", { class: "scene", role: "presentation", focusable: "false" }, this.world);
    this.world.append(this.branches, this.boxes, this.rough, this.links, this.cards, this.labels, this.names);
    host.append(this.svg);
    const moving = this.zoom.on("zoom", ({ transform }: { transform: ZoomTransform }) => this.moved(transform));
    select(host).call(moving).on("dblclick.zoom", null);
    this.svg.addEventListener("click", (event) => this.clicked(event));
    this.svg.addEventListener("pointerover", (event) => wishes.point(idAt(event)));
    this.svg.addEventListener("pointerleave", () => wishes.point(null));
    this.resized();
  }

  // ---- what is shown

  show(drawing: Drawing): void {
    const before = this.drawing;
    const anchor = before && this.anchor(before, drawing);
    this.drawing = drawing;
    this.covered = null;
    if (anchor) this.place(this.transform.translate(anchor.x, anchor.y));
    this.later();
  }

  mark(look: Look): void {
    const faded = look.only !== this.look.only;
    const selected = look.selected !== this.look.selected;
    this.look = look;
    if (faded || selected) this.covered = null;
    this.later();
    for (const [id, { group }] of this.drawn) this.marked(id, group);
    for (const { drawn, route } of this.drawnRoutes.values()) this.markedRoute(drawn, route);
  }

  resized(): void {
    const { width, height } = this.host.getBoundingClientRect();
    if (width === this.size.width && height === this.size.height) return;
    this.size = { width, height };
    this.svg.setAttribute("width", String(width * (1 + 2 * BESIDE)));
    this.svg.setAttribute("height", String(height * (1 + 2 * BESIDE)));
    this.covered = null;
    this.later();
  }

  /** The part of the map in view. */
  get view(): Box {
    const { x, y, k } = this.transform;
    return { x: -x / k, y: -y / k, width: this.size.width / k, height: this.size.height / k };
  }

  get aspect(): number {
    return this.size.height ? this.size.width / this.size.height : 1.6;
  }

  get shown(): Drawing | null {
    return this.drawing;
  }

  get layout(): Layout | null {
    return this.drawing?.layout ?? null;
  }

  // ---- moving

  fit(glide = true): void {
    if (!this.drawing || !this.size.width) return;
    const { x, y, width, height } = this.drawing.layout.bounds;
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
  reveal(id: string, glide = true): void {
    const place = this.placeOf(id);
    if (!place) return;
    const { k, x, y } = this.transform;
    const box = { x: place.x * k + x, y: place.y * k + y, width: place.width * k, height: place.height * k };
    const inside = { x: 8, y: 8, width: this.size.width - 16, height: this.size.height - 16 };
    const whole = box.x >= inside.x && box.y >= inside.y && box.x + box.width <= inside.width && box.y + box.height <= inside.height;
    if (k >= NEAR && whole) return;
    const scale = k < NEAR ? 0.85 : k;
    this.centre({ x: place.x + place.width / 2, y: place.y + place.height / 2 }, scale, glide);
  }

  centre(point: { x: number; y: number }, scale = this.transform.k, glide = true): void {
    const left = this.size.width / 2 - point.x * scale;
    const top = this.size.height / 2 - point.y * scale;
    this.place(zoomIdentity.translate(left, top).scale(scale), glide);
  }

  scaleBy(factor: number): void {
    this.zoom.scaleBy(select(this.host), factor);
  }

  panBy(x: number, y: number): void {
    this.zoom.translateBy(select(this.host), x / this.transform.k, y / this.transform.k);
  }

  private place(transform: ZoomTransform, glide = false): void {
    const calm = !glide || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (calm) this.zoom.transform(select(this.host), transform);
    else this.glide(this.transform, transform, performance.now());
  }

  private gliding = 0;

  private glide(from: ZoomTransform, to: ZoomTransform, start: number): void {
    const mine = ++this.gliding;
    const step = (): void => {
      if (mine !== this.gliding) return;
      const part = Math.min(1, (performance.now() - start) / GLIDE_MS);
      const eased = 1 - (1 - part) ** 3;
      // Scales run evenly as factors, not as differences.
      const k = from.k * (to.k / from.k) ** eased;
      const along = Math.abs(to.k - from.k) < 1e-6 ? eased : (k - from.k) / (to.k - from.k);
      const at = zoomIdentity.translate(from.x + (to.x - from.x) * along, from.y + (to.y - from.y) * along).scale(k);
      this.zoom.transform(select(this.host), part === 1 ? to : at);
      if (part < 1) requestAnimationFrame(step);
    };
    step();
  }

  private moved(transform: ZoomTransform): void {
    this.transform = transform;
    this.svg.classList.add("moving");
    window.clearTimeout(this.resting);
    this.resting = window.setTimeout(() => this.rested(), REST_MS);
    this.later();
    this.wishes.moved();
  }

  private rested(): void {
    this.svg.classList.remove("moving");
    if (this.covered?.at.k !== this.transform.k) this.covered = null; // sharp again
    this.later();
  }

  /** How far what a person looks at has moved from one layout to the next. */
  private anchor(before: Drawing, after: Drawing): { x: number; y: number } | null {
    const { view } = this;
    const centre = { x: view.x + view.width / 2, y: view.y + view.height / 2 };
    const distance = ({ x, y, width, height }: Box): number => Math.hypot(x + width / 2 - centre.x, y + height / 2 - centre.y);
    let best: { id: string; off: number } | null = null;
    for (const [id, place] of before.layout.places) {
      if (!after.layout.places.has(id) || !meets(place, view)) continue;
      const off = id === this.look.selected ? -1 : distance(place);
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
    if (!this.drawing || !this.size.width) return;
    const { view, covered, transform } = this;
    const stretch = covered ? transform.k / covered.at.k : Infinity;
    if (!covered || !contains(covered.box, view) || stretch > STRETCH || stretch < 1 / STRETCH) this.redraw(this.drawing);
    const { at } = this.covered!;
    const factor = transform.k / at.k;
    const left = transform.x - factor * (at.x + this.size.width * BESIDE);
    const top = transform.y - factor * (at.y + this.size.height * BESIDE);
    this.svg.style.transform = `translate(${left}px, ${top}px) scale(${factor})`;
  }

  private redraw(drawing: Drawing): void {
    const { view, transform } = this;
    const { x, y, k } = transform;
    const box = {
      x: view.x - view.width * BESIDE,
      y: view.y - view.height * BESIDE,
      width: view.width * (1 + 2 * BESIDE),
      height: view.height * (1 + 2 * BESIDE),
    };
    this.covered = { box, at: transform };
    this.world.setAttribute("transform", `translate(${x + this.size.width * BESIDE} ${y + this.size.height * BESIDE}) scale(${k})`);
    this.names.setAttribute("font-size", String(LABEL_SIZE / k));
    const inView = [...drawing.layout.places.values()].filter((place) => meets(place, box));
    const far = k < NEAR && inView.length > MOST_CARDS / (k < NEAR / 2 ? 4 : 1);
    this.svg.classList.toggle("far", far);
    this.svg.classList.toggle("mid", !far && k < NEAR);
    if (far) this.drawFar(drawing, inView, box, k);
    else this.drawNear(drawing, inView, box);
  }

  private drawNear({ layout, routes }: Drawing, inView: Place[], box: Box): void {
    this.boxes.replaceChildren();
    this.names.replaceChildren();
    this.rough.replaceChildren();
    this.branches.setAttribute("d", branches(layout, box));
    this.drawCards(inView);
    const wanted = routes.filter((route) => meets(route.box, box)).slice(0, MOST_LINKS);
    this.drawLinks(wanted);
  }

  private drawFar({ layout, routes }: Drawing, inView: Place[], box: Box, scale: number): void {
    const { only, selected } = this.look;
    const shown = only && this.homes(only);
    const paths = [...merged(inView, (id) => shown !== null && !shown.has(id))];
    this.boxes.replaceChildren(...paths.map(([name, d]) => element("path", { class: name, d })));
    this.branches.setAttribute("d", branches(layout, box));
    this.rough.replaceChildren(...roughLinks(routes.filter((route) => meets(route.box, box))).map((d) => element("path", { d })));
    this.svg.style.setProperty("--hair", String(1 / scale));
    const lettered = names(inView, scale, this.measure);
    this.names.replaceChildren(...lettered.map(({ text, x, y }) => element("text", { x, y }, text)));
    this.drawLinks([]);
    const kept = [selected, ...(shown && shown.size < MOST_CARDS ? shown : [])];
    this.drawCards(kept.flatMap((id) => this.placeOf(id ?? "") ?? []));
  }

  private drawCards(places: Place[]): void {
    const selected = this.placeOf(this.look.selected ?? "");
    const wanted = new Map(places.map((place) => [place.branch.id, place]));
    // The one that readers of the screen are told of is always there.
    if (selected) wanted.set(selected.branch.id, selected);
    for (const [id, { group, place }] of this.drawn) {
      if (wanted.get(id) === place) continue;
      group.remove();
      this.drawn.delete(id);
    }
    for (const [id, place] of wanted) {
      if (this.drawn.has(id)) continue;
      const group = drawnCard(place, this.prefix, standing(place));
      this.marked(id, group);
      this.cards.append(group);
      this.drawn.set(id, { group, place });
    }
  }

  private drawLinks(routes: Route[]): void {
    const wanted = new Map(routes.map((route) => [route.key, route]));
    for (const [key, { drawn, route }] of this.drawnRoutes) {
      if (wanted.get(key) === route) continue;
      drawn.run.remove();
      drawn.label?.remove();
      this.drawnRoutes.delete(key);
    }
    for (const [key, route] of wanted) {
      if (this.drawnRoutes.has(key)) continue;
      const drawn = drawnLink(route);
      this.markedRoute(drawn, route);
      this.links.append(drawn.run);
      if (drawn.label) this.labels.append(drawn.label);
      this.drawnRoutes.set(key, { drawn, route });
    }
  }

  private marked(id: string, group: SVGGElement): void {
    const { selected, only, lit, fresh, pointed } = this.look;
    const has = (ids: ReadonlySet<string>): boolean => ids.has(id) || (ids.size > 0 && this.homes(ids).has(id));
    const news = [...fresh].filter(([node]) => this.drawing?.home.get(node) === id).map(([, kind]) => kind);
    group.classList.toggle("selected", id === this.home(selected));
    group.classList.toggle("pointed", id === this.home(pointed));
    group.classList.toggle("lit", has(lit));
    group.classList.toggle("faded", only !== null && !has(only) && id !== this.home(selected));
    group.classList.toggle("added", news.includes("added"));
    group.classList.toggle("changed", news.length > 0 && !news.includes("added"));
    group.setAttribute("aria-selected", String(id === this.home(selected)));
  }

  private markedRoute({ run, label }: DrawnLink, { from, to }: Route): void {
    const { selected, pointed, only } = this.look;
    const ends = [this.home(selected), this.home(pointed)];
    const hot = ends.includes(from) || ends.includes(to);
    const shown = only && this.homes(only);
    for (const part of [run, label]) {
      part?.classList.toggle("hot", hot);
      part?.classList.toggle("faded", shown !== null && !hot && !(shown.has(from) && shown.has(to)));
    }
  }

  private home(id: string | null): string | null {
    return (id && this.drawing?.home.get(id)) ?? null;
  }

  private readonly homesOf = new WeakMap<Drawing, WeakMap<ReadonlySet<string>, Set<string>>>();

  private homes(ids: ReadonlySet<string>): Set<string> {
    if (!this.drawing) return new Set();
    let known = this.homesOf.get(this.drawing);
    if (!known) this.homesOf.set(this.drawing, (known = new WeakMap()));
    let homes = known.get(ids);
    if (!homes) known.set(ids, (homes = new Set([...ids].flatMap((id) => this.home(id) ?? []))));
    return homes;
  }

  placeOf(id: string): Place | null {
    return this.drawing?.layout.places.get(this.home(id) ?? "") ?? null;
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

function standing({ branch }: Place): Standing {
  const row = branch.parent?.children ?? [branch];
  return { level: branch.depth + 1, place: row.indexOf(branch) + 1, of: row.length };
}
