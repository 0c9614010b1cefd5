// SVG surface that draws the part of a map inside a box, with the detail that suits the scale.

import type { Drawing } from "../layout/drawing";
import { type Box, type PlacedCard, intersects } from "../layout/layout";
import type { LinkRoute } from "../layout/links";
import type { Measure } from "../layout/text";
import { MIN_TEXT_SCALE } from "./camera";
import { type TreePosition, createCardElement } from "./card";
import { mergeCards, chooseNames } from "./overview";
import { Layer, drawSlice } from "./layer";
import { type LinkElements, buildConnectorsPath, createLinkElements, buildTooltip, buildStraightLinkPaths } from "./links";
import { HighlightStyles, NO_HIGHLIGHT } from "./highlights";
import { createElement } from "./svg";

// If text is too small to read and more cards than this are in view, an overview merges them into a few paths. At less than
// half of that scale, a quarter of this number is the limit.
const MAX_CARDS = 260;
// Maximum number of links to draw. Painting more is slow, because each link crosses much of the view.
const MAX_LINKS = 120;
// If more animated links than this are in view, only the links of the hovered or selected card are animated. Each step of
// an animation paints a large part of the view again: 30 animated links kept 0.6 of a processor busy.
const MAX_ANIMATED_LINKS = 5;
const NAME_FONT_SIZE = 12;

export class Surface {
  private readonly content = createElement("g", { class: "world", role: "presentation" });
  private readonly connectors = createElement("path", { class: "connectors" });
  private readonly boxes = createElement("g", { class: "boxes", "aria-hidden": "true" });
  private readonly straightLinks = createElement("g", { class: "rough" });
  private readonly links = createElement("g", { class: "links", "aria-hidden": "true" });
  private readonly cards = createElement("g", { class: "cards", role: "presentation" });
  private readonly labels = createElement("g", { class: "labels", "aria-hidden": "true" });
  private readonly names = createElement("g", { class: "names", "aria-hidden": "true" });
  readonly svg = createElement("svg", { class: "scene", role: "presentation", focusable: "false" }, this.content);
  private readonly cardLayer = new Layer<PlacedCard, SVGGElement>(
    (id, placedCard) => this.createCard(id, placedCard),
    (group) => group.remove(),
    looksSameCard,
  );
  private readonly linkLayer = new Layer<LinkRoute, LinkElements>(
    (_, route) => this.createLink(route),
    ({ line, label }) => [line, label].forEach((part) => part?.remove()),
    looksSameRoute,
  );
  private drawing: Drawing | null = null;
  private highlights = new HighlightStyles(NO_HIGHLIGHT, new Map());

  constructor(
    private readonly prefix: string,
    private readonly measure: Measure,
  ) {
    this.content.append(this.connectors, this.boxes, this.straightLinks, this.links, this.cards, this.labels, this.names);
  }

  applyHighlights(highlights: HighlightStyles): void {
    this.highlights = highlights;
    this.cardLayer.forEach((id, group) => highlights.applyToCard(id, group));
    this.linkLayer.forEach((_, drawn, route) => highlights.applyToLink(drawn, route));
  }

  /** Stops the animation of links while the surface moves, because each step of the animation would repaint the surface. */
  setMoving(isMoving: boolean): void {
    this.links.classList.toggle("moving", isMoving);
  }

  /** Starts drawing the contents of a box; `drawPending` continues. */
  draw(drawing: Drawing, box: Box, { x, y, k }: { x: number; y: number; k: number }): void {
    this.drawing = drawing;
    this.content.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    this.names.setAttribute("font-size", String(NAME_FONT_SIZE / k));
    const cards = [...drawing.layout.cards.values()].filter((placedCard) => intersects(placedCard, box));
    const maxCards = k < MIN_TEXT_SCALE / 2 ? MAX_CARDS / 4 : MAX_CARDS;
    const isOverview = k < MIN_TEXT_SCALE && cards.length > maxCards;
    this.svg.classList.toggle("far", isOverview);
    this.svg.classList.toggle("mid", !isOverview && k < MIN_TEXT_SCALE);
    if (isOverview) this.drawOverview(drawing, cards, box, k);
    else this.drawCards(drawing, cards, box);
  }

  /** Draws pending elements for one time slice; returns true if none is left. */
  drawPending(): boolean {
    return drawSlice(this.cardLayer, this.linkLayer);
  }

  private drawCards({ layout, routes }: Drawing, cards: PlacedCard[], box: Box): void {
    for (const group of [this.boxes, this.names, this.straightLinks]) group.replaceChildren();
    this.connectors.setAttribute("d", buildConnectorsPath(layout, box));
    const centre = computeCentre(box);
    this.updateCards(cards.map((placedCard) => [computeDistance(placedCard, centre), placedCard] as const).sort(([a], [b]) => a - b).map(([, placedCard]) => placedCard));
    this.updateLinks(routes.filter((route) => intersects(route.box, box)).slice(0, MAX_LINKS));
  }

  private drawOverview({ layout, routes }: Drawing, cards: PlacedCard[], box: Box, scale: number): void {
    const { unfaded, selected } = this.highlights;
    const paths = mergeCards(cards, (id) => this.highlights.isFaded(id), scale);
    this.boxes.replaceChildren(...paths.map(({ name, path }) => createElement("path", { class: name, d: path })));
    this.connectors.setAttribute("d", buildConnectorsPath(layout, box));
    this.straightLinks.replaceChildren(...buildStraightLinkPaths(routes.filter((route) => intersects(route.box, box))).map((d) => createElement("path", { d })));
    this.svg.style.setProperty("--hair", String(1 / scale));
    const names = chooseNames(cards, scale, this.measure);
    this.names.replaceChildren(...names.map(({ text, x, y }) => createElement("text", { x, y }, text)));
    this.updateLinks([]);
    const matches = unfaded && unfaded.size < MAX_CARDS ? [...unfaded] : [];
    this.updateCards([selected, ...matches].flatMap((id) => this.findCard(id) ?? []));
  }

  private updateCards(cards: PlacedCard[]): void {
    // The selected card always exists, for screen readers.
    const selected = this.findCard(this.highlights.selected);
    const all = selected ? [selected, ...cards] : cards;
    this.cardLayer.update(new Map(all.map((placedCard) => [placedCard.branch.id, placedCard])));
  }

  private updateLinks(routes: LinkRoute[]): void {
    this.linkLayer.update(new Map(routes.map((route) => [route.key, route])));
    this.links.classList.toggle("many", routes.filter(({ style }) => style === "animated").length > MAX_ANIMATED_LINKS);
  }

  private createCard(id: string, placedCard: PlacedCard): SVGGElement {
    const group = createCardElement(placedCard, this.prefix, findTreePosition(placedCard));
    this.highlights.applyToCard(id, group);
    this.cards.append(group);
    return group;
  }

  private createLink(route: LinkRoute): LinkElements {
    const drawn = createLinkElements(route);
    this.highlights.applyToLink(drawn, route);
    this.links.append(drawn.line);
    if (drawn.label) this.labels.append(drawn.label);
    return drawn;
  }

  private findCard(id: string | null): PlacedCard | null {
    return this.drawing?.layout.cards.get(id ?? "") ?? null;
  }
}

export const computeCentre = ({ x, y, width, height }: Box): { x: number; y: number } => ({ x: x + width / 2, y: y + height / 2 });

export const computeDistance = (box: Box, from: { x: number; y: number }): number => {
  const { x, y } = computeCentre(box);
  return Math.hypot(x - from.x, y - from.y);
};

/** Checks whether two placed cards look the same. `card` is the same object as long as the content of the card is unchanged. */
const looksSameCard = (a: PlacedCard, b: PlacedCard): boolean =>
  a.card === b.card &&
  a.x === b.x &&
  a.y === b.y &&
  a.branch.node === b.branch.node &&
  a.branch.depth === b.branch.depth &&
  a.branch.parent?.children.length === b.branch.parent?.children.length;

const looksSameRoute = (a: LinkRoute, b: LinkRoute): boolean =>
  a.path === b.path && a.label === b.label && buildTooltip(a) === buildTooltip(b);

function findTreePosition({ branch }: PlacedCard): TreePosition {
  const siblings = branch.parent?.children ?? [branch];
  return { level: branch.depth + 1, position: siblings.indexOf(branch) + 1, count: siblings.length };
}
