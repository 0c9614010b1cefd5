// What is drawn of a map: what is in a box of it at the scale it is seen at, and no more.

import type { Drawing } from "../layout/drawing";
import { type Box, type Place, meets } from "../layout/layout";
import type { Route } from "../layout/links";
import type { Measure } from "../layout/text";
import { NEAR } from "./camera";
import { type Standing, drawnCard } from "./card";
import { merged, names } from "./far";
import { Layer, filled } from "./layer";
import { type DrawnLink, branches, drawnLink, notesOf, roughLinks } from "./links";
import { Marks, PLAIN } from "./marks";
import { element } from "./svg";

// Cards drawn one by one; more are merged into a few paths.
const MOST_CARDS = 260;
// Links are long: each is drawn over much of the view.
const MOST_LINKS = 120;
const LABEL_SIZE = 12;

export class Sheet {
  private readonly world = element("g", { class: "world", role: "presentation" });
  private readonly branches = element("path", { class: "branches" });
  private readonly boxes = element("g", { class: "boxes", "aria-hidden": "true" });
  private readonly rough = element("g", { class: "rough" });
  private readonly links = element("g", { class: "links", "aria-hidden": "true" });
  private readonly cards = element("g", { class: "cards", role: "presentation" });
  private readonly labels = element("g", { class: "labels", "aria-hidden": "true" });
  private readonly names = element("g", { class: "names", "aria-hidden": "true" });
  readonly svg = element("svg", { class: "scene", role: "presentation", focusable: "false" }, this.world);
  private readonly drawnCards = new Layer<Place, SVGGElement>(
    (id, place) => this.card(id, place),
    (group) => group.remove(),
    isSamePlace,
  );
  private readonly drawnLinks = new Layer<Route, DrawnLink>(
    (_, route) => this.link(route),
    ({ run, label }) => [run, label].forEach((part) => part?.remove()),
    isSameRoute,
  );
  private drawing: Drawing | null = null;
  private marks = new Marks(PLAIN, new Map());

  constructor(
    private readonly prefix: string,
    private readonly measure: Measure,
  ) {
    this.world.append(this.branches, this.boxes, this.rough, this.links, this.cards, this.labels, this.names);
  }

  mark(marks: Marks): void {
    this.marks = marks;
    this.drawnCards.each((id, group) => marks.card(id, group));
    this.drawnLinks.each((_, drawn, route) => marks.link(drawn, route));
  }

  /** Nothing runs along the links while the sheet is moved: that would have it painted at each step. */
  setMoving(on: boolean): void {
    this.links.classList.toggle("moving", on);
  }

  /** Begins to draw what is in a box; the rest comes with `fill`. */
  draw(drawing: Drawing, box: Box, { x, y, k }: { x: number; y: number; k: number }): void {
    this.drawing = drawing;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    this.names.setAttribute("font-size", String(LABEL_SIZE / k));
    const inside = [...drawing.layout.places.values()].filter((place) => meets(place, box));
    const far = k < NEAR && inside.length > MOST_CARDS / (k < NEAR / 2 ? 4 : 1);
    this.svg.classList.toggle("far", far);
    this.svg.classList.toggle("mid", !far && k < NEAR);
    if (far) this.drawFar(drawing, inside, box, k);
    else this.drawNear(drawing, inside, box);
  }

  /** Draws what is missing for as long as a slice is; whether all of it is there. */
  fill(): boolean {
    return filled(this.drawnCards, this.drawnLinks);
  }

  private drawNear({ layout, routes }: Drawing, inside: Place[], box: Box): void {
    for (const group of [this.boxes, this.names, this.rough]) group.replaceChildren();
    this.branches.setAttribute("d", branches(layout, box));
    const centre = middle(box);
    this.wantCards(inside.map((place) => [distance(place, centre), place] as const).sort(([a], [b]) => a - b).map(([, place]) => place));
    this.wantLinks(routes.filter((route) => meets(route.box, box)).slice(0, MOST_LINKS));
  }

  private drawFar({ layout, routes }: Drawing, inside: Place[], box: Box, scale: number): void {
    const { only, selected } = this.marks;
    const paths = merged(inside, (id) => this.marks.isFaded(id), scale);
    this.boxes.replaceChildren(...paths.map(({ name, path }) => element("path", { class: name, d: path })));
    this.branches.setAttribute("d", branches(layout, box));
    this.rough.replaceChildren(...roughLinks(routes.filter((route) => meets(route.box, box))).map((d) => element("path", { d })));
    this.svg.style.setProperty("--hair", String(1 / scale));
    const lettered = names(inside, scale, this.measure);
    this.names.replaceChildren(...lettered.map(({ text, x, y }) => element("text", { x, y }, text)));
    this.wantLinks([]);
    const found = only && only.size < MOST_CARDS ? [...only] : [];
    this.wantCards([selected, ...found].flatMap((id) => this.placeOf(id) ?? []));
  }

  private wantCards(places: Place[]): void {
    // The one that readers of the screen are told of is always there.
    const selected = this.placeOf(this.marks.selected);
    const all = selected ? [selected, ...places] : places;
    this.drawnCards.want(new Map(all.map((place) => [place.branch.id, place])));
  }

  private wantLinks(routes: Route[]): void {
    this.drawnLinks.want(new Map(routes.map((route) => [route.key, route])));
  }

  private card(id: string, place: Place): SVGGElement {
    const group = drawnCard(place, this.prefix, standing(place));
    this.marks.card(id, group);
    this.cards.append(group);
    return group;
  }

  private link(route: Route): DrawnLink {
    const drawn = drawnLink(route);
    this.marks.link(drawn, route);
    this.links.append(drawn.run);
    if (drawn.label) this.labels.append(drawn.label);
    return drawn;
  }

  private placeOf(id: string | null): Place | null {
    return this.drawing?.layout.places.get(id ?? "") ?? null;
  }
}

export const middle = ({ x, y, width, height }: Box): { x: number; y: number } => ({ x: x + width / 2, y: y + height / 2 });

export const distance = (box: Box, from: { x: number; y: number }): number => {
  const { x, y } = middle(box);
  return Math.hypot(x - from.x, y - from.y);
};

/** Whether a card looks the same in both; of a node that did not change, the card is the same object. */
const isSamePlace = (one: Place, other: Place): boolean =>
  one.card === other.card &&
  one.x === other.x &&
  one.y === other.y &&
  one.branch.node === other.branch.node &&
  one.branch.depth === other.branch.depth &&
  one.branch.parent?.children.length === other.branch.parent?.children.length;

const isSameRoute = (one: Route, other: Route): boolean =>
  one.path === other.path && one.label === other.label && notesOf(one) === notesOf(other);

function standing({ branch }: Place): Standing {
  const row = branch.parent?.children ?? [branch];
  return { level: branch.depth + 1, place: row.indexOf(branch) + 1, of: row.length };
}
