// SVG surface that draws the part of a map inside a box, with the detail that suits the scale.

import { type Measure, truncateText } from "../layout/card";
import { type Box, computeCentre, computeDistance, intersects } from "../layout/geometry";
import type { PlacedCard } from "../layout/layout";
import type { Drawing, LinkRoute } from "../layout/links";
import { getStatus, isModelNode } from "../model/tree";
import { MIN_TEXT_SCALE } from "./camera";
import { type LinkElements, type TreePosition, buildConnectorsPath, buildStraightLinkPaths, buildTooltip, createCardElement, createLinkElements } from "./elements";
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
    this.linkLayer.forEach((_, elements, route) => highlights.applyToLink(elements, route));
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
    const elements = createLinkElements(route);
    this.highlights.applyToLink(elements, route);
    this.links.append(elements.line);
    if (elements.label) this.labels.append(elements.label);
    return elements;
  }

  private findCard(id: string | null): PlacedCard | null {
    return this.drawing?.layout.cards.get(id ?? "") ?? null;
  }
}

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

// ---- overview at small scales

// Side, in pixels, of the squares whose cards share a path. Browsers paint a path again for every tile of 256 pixels that
// it reaches.
const CELL_PIXELS = 400;
// In pixels: minimum width and height of a branch whose name is shown, and height of the line of a name. `count`: maximum
// number of names.
const NAME_LIMITS = { width: 64, height: 40, line: 18, count: 60 } as const;

/** Merges neighbouring cards of the same class into paths. `name`: the class. */
function mergeCards(cards: PlacedCard[], isFaded: (id: string) => boolean, scale: number): { name: string; path: string }[] {
  const groups = new Map<string, { name: string; boxes: string[] }>();
  const cellSize = CELL_PIXELS / scale;
  for (const placedCard of cards) {
    const name = `${getOverviewClass(placedCard)}${isFaded(placedCard.branch.id) ? " faded" : ""}`;
    const key = `${name} ${Math.floor(placedCard.x / cellSize)} ${Math.floor(placedCard.y / cellSize)}`;
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { name, boxes: [] }));
    group.boxes.push(`M${Math.round(placedCard.x)} ${Math.round(placedCard.y)}h${placedCard.width}v${placedCard.height}h-${placedCard.width}z`);
  }
  return [...groups.values()].map(({ name, boxes }) => ({ name, path: boxes.join("") }));
}

function getOverviewClass({ branch: { node } }: PlacedCard): string {
  const status = getStatus(node);
  if (status) return `s-${status}`;
  return isModelNode(node) ? `t-${node.type}` : "plain";
}

interface OverviewName {
  text: string;
  x: number;
  y: number;
}

/** Chooses the branches whose names are shown at a scale: the largest ones whose names do not overlap. Returns the names. */
function chooseNames(cards: PlacedCard[], scale: number, measure: Measure): OverviewName[] {
  const large = cards
    .filter(({ branch, subtreeBox }) => branch.children.length && subtreeBox.width * scale > NAME_LIMITS.width && subtreeBox.height * scale > NAME_LIMITS.height)
    .sort((a, b) => a.branch.depth - b.branch.depth || b.subtreeBox.height - a.subtreeBox.height);
  const names: (OverviewName & { right: number })[] = [];
  for (const { branch, x, y, height, subtreeBox } of large) {
    if (names.length >= NAME_LIMITS.count) break;
    const text = branch.parent ? truncateText(branch.node.label, subtreeBox.width * scale * 0.8, measure) : branch.node.label;
    const name = { text, x, y: y + height / 2, right: x + (measure(text) + 16) / scale };
    const isOverlapping = names.some(
      (other) => name.x < other.right && other.x < name.right && Math.abs(other.y - name.y) * scale < NAME_LIMITS.line,
    );
    if (!isOverlapping) names.push(name);
  }
  return names;
}

// ---- layers of drawn elements

// Time to draw in one animation frame. The browser's layout and paint take as long again, so that both together take half
// of the 16 ms of a frame.
const SLICE_MS = 4;

interface LayerEntry<Item, Graphic> {
  item: Item;
  graphic: Graphic;
}

/** Graphic elements by key. An update removes obsolete elements, keeps those that look the same, and draws new ones in time slices. */
class Layer<Item, Graphic> {
  private readonly entries = new Map<string, LayerEntry<Item, Graphic>>();
  private pending: [string, Item][] = [];

  constructor(
    private readonly draw: (key: string, item: Item) => Graphic,
    private readonly remove: (graphic: Graphic) => void,
    private readonly isSame: (a: Item, b: Item) => boolean,
  ) {}

  /** Removes the elements of obsolete and changed items now, and queues the items to draw in the order of the map. */
  update(items: Map<string, Item>): void {
    for (const [key, { item, graphic }] of this.entries) {
      const next = items.get(key);
      if (next && this.isSame(next, item)) {
        this.entries.set(key, { item: next, graphic });
      } else {
        this.remove(graphic);
        this.entries.delete(key);
      }
    }
    this.pending = [...items].filter(([key]) => !this.entries.has(key)).reverse();
  }

  /** Draws pending items until the deadline; returns true if none is left. */
  drawPending(deadline: number): boolean {
    while (this.pending.length && performance.now() < deadline) {
      const [key, item] = this.pending.pop()!;
      this.entries.set(key, { item, graphic: this.draw(key, item) });
    }
    return !this.pending.length;
  }

  forEach(act: (key: string, graphic: Graphic, item: Item) => void): void {
    for (const [key, { item, graphic }] of this.entries) act(key, graphic, item);
  }
}

/** Draws pending items of the layers for one time slice; returns true if none is left. */
function drawSlice(...layers: { drawPending: (deadline: number) => boolean }[]): boolean {
  const deadline = performance.now() + SLICE_MS;
  return layers.every((layer) => layer.drawPending(deadline));
}
