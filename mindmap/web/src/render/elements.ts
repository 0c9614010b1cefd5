// SVG elements of cards and links, and paths of connectors (lines between parents and children).

import { type Card, buildAccessibleName, CARD_METRICS, describeCrossLinks } from "../layout/card";
import { type Box, intersects } from "../layout/geometry";
import type { Layout, PlacedCard } from "../layout/layout";
import type { LinkRoute } from "../layout/links";
import { computePercent } from "../model/progress";
import { getStatus } from "../model/tree";
import { type Icon, buildOutline, createElement, getIcon } from "./svg";

// ---- cards

/** Position in the tree, for screen readers: level, position among siblings, and their count. */
export interface TreePosition {
  level: number;
  position: number;
  count: number;
}

/** Returns the element of a card. `prefix`: start of its `id` attribute, which differs from pane to pane. */
export function createCardElement(placedCard: PlacedCard, prefix: string, treePosition: TreePosition): SVGGElement {
  const { card, branch } = placedCard;
  const { node } = branch;
  const status = getStatus(node);
  const group = createElement("g", {
    class: `card t-${removeSpecialCharacters(node.type)}${status ? ` s-${removeSpecialCharacters(status)}` : ""}`,
    transform: `translate(${placedCard.x} ${placedCard.y})`,
    id: `${prefix}-${node.id}`,
    "data-id": node.id,
    role: "treeitem",
    "aria-label": buildAccessibleName(node, card),
    "aria-level": treePosition.level,
    "aria-posinset": treePosition.position,
    "aria-setsize": treePosition.count,
    "aria-expanded": card.isCollapsible ? String(!card.isCollapsed) : undefined,
    "aria-selected": "false",
  });
  group.append(
    createElement("path", { class: "shape", d: buildOutline(node.type, card.width, card.height) }),
    createIcon(getIcon(node.type, status), CARD_METRICS.pad, CARD_METRICS.top, "icon"),
    ...createTexts(card),
    ...createFooter(card),
  );
  if (card.isCollapsible) group.append(createToggle(card));
  if (card.crossLinkCount) group.append(createBadge(card));
  return group;
}

// Types and statuses of other programs may contain any character.
const removeSpecialCharacters = (word: string): string => word.replace(/[^a-z_]/gu, "");

function createIcon({ line, solid }: Icon, x: number, y: number, name: string): SVGGElement {
  return createElement(
    "g",
    { class: name, transform: `translate(${x} ${y})`, "aria-hidden": "true" },
    line ? createElement("path", { class: "line", d: line }) : null,
    solid ? createElement("path", { class: "solid", d: solid }) : null,
  );
}

// Space to the right of the text about files, because some shapes have a point there.
const FILES_MARGIN = 16;

function createTexts(card: Card): SVGTextElement[] {
  const x = CARD_METRICS.pad + CARD_METRICS.icon - 6;
  const top = CARD_METRICS.top + 12;
  const lines = card.lines.map((line, row) =>
    createElement("text", { class: "label", x, y: top + row * CARD_METRICS.line + (card.caption ? CARD_METRICS.caption : 0) }, line),
  );
  const end = top + card.lines.length * CARD_METRICS.line + (card.caption ? CARD_METRICS.caption : 0) - 2;
  for (const [row, line] of card.remark.entries()) lines.push(createElement("text", { class: `remark${card.isQuestion ? " question" : ""}`, x, y: end + row * CARD_METRICS.caption }, line));
  if (!card.caption) return lines;
  const caption = createElement("text", { class: "caption", x, y: top - 1 }, card.caption);
  if (!card.files || card.hasFooter) return [caption, ...lines];
  return [caption, createElement("text", { class: "files", x: card.width - FILES_MARGIN, y: top - 1, "text-anchor": "end" }, card.files), ...lines];
}

function createFooter(card: Card): SVGElement[] {
  const y = card.height - CARD_METRICS.top - 1;
  const elements: SVGElement[] = [];
  if (card.files && card.hasFooter) elements.push(createElement("text", { class: "files", x: CARD_METRICS.pad + CARD_METRICS.icon - 6, y }, card.files));
  if (!card.progress) return elements;
  const { done, total } = card.progress;
  const width = 44;
  const x = card.width - CARD_METRICS.pad - width - 8;
  elements.push(
    createElement("text", { class: "count", x: x - 6, y, "text-anchor": "end" }, `${done}/${total}`),
    createElement("rect", { class: "bar", x, y: y - 7, width, height: 5, rx: 2.5 }),
  );
  if (done) {
    const filled = Math.max(5, (width * computePercent(card.progress)) / 100);
    elements.push(createElement("rect", { class: "filled", x, y: y - 7, width: filled, height: 5, rx: 2.5 }));
  }
  return elements;
}

/** Returns the badge with the number of links to the other pane, on the upper edge of the card. */
function createBadge(card: Card): SVGGElement {
  const text = String(card.crossLinkCount);
  const width = 26 + 7 * text.length;
  return createElement(
    "g",
    { class: "cross-count", transform: `translate(${card.width - width - 8} -8)`, "aria-hidden": "true" },
    createElement("title", {}, describeCrossLinks(card.crossLinkCount)),
    createElement("rect", { width, height: 16, rx: 8 }),
    createElement("path", { d: "M6 8h11M14 5l3 3l-3 3M9 5l-3 3l3 3" }),
    createElement("text", { x: 21, y: 12 }, text),
  );
}

/** Returns the mark of a node that changed while the tab was hidden, on the upper edge of the card. */
export function createMark(text: string): SVGGElement {
  const width = 18 + 7 * text.length;
  return createElement(
    "g",
    { class: "unseen", transform: "translate(10 -8)" },
    createElement("rect", { width, height: 16, rx: 8 }),
    createElement("text", { x: width / 2, y: 12, "text-anchor": "middle" }, text),
  );
}

function createToggle(card: Card): SVGGElement {
  const text = card.isCollapsed ? String(card.hiddenCount) : "−";
  const width = Math.max(18, 10 + 7 * text.length);
  return createElement(
    "g",
    { class: "toggle", transform: `translate(${card.width} ${card.height / 2})`, "aria-hidden": "true" },
    createElement("rect", { x: -9, y: -9, width, height: 18, rx: 9 }),
    createElement("text", { x: -9 + width / 2, y: 4, "text-anchor": "middle" }, text),
  );
}

// ---- links and connectors

// In pixels at scale 1. Longer links are solid and thin, because browsers compute dashes along the whole link.
const LONG_LINK_LENGTH = 1_800;

export interface LinkElements {
  line: SVGGElement;
  /** Text that is drawn above the cards; null without a label. */
  label: SVGTextElement | null;
}

/** Returns the tooltip of a route: one line for each of its links. */
export const buildTooltip = ({ links }: LinkRoute): string =>
  links.map((link) => [link.label, link.notes].filter(Boolean).join(": ")).filter(Boolean).join("\n");

export function createLinkElements(route: LinkRoute): LinkElements {
  const [x, y] = route.labelPoint;
  const tooltip = buildTooltip(route);
  const line = createElement(
    "g",
    { class: `link ${route.style}${Math.hypot(route.box.width, route.box.height) > LONG_LINK_LENGTH ? " long" : ""}`, "data-key": route.key },
    tooltip ? createElement("title", {}, tooltip) : null,
    createElement("path", { class: "hit", d: route.path }), // wide invisible line for the pointer
    createElement("path", { class: "stroke", d: route.path }),
    createElement("path", { class: "arrow", d: route.arrow }),
  );
  if (!route.label) return { line, label: null };
  const label = createElement("text", { class: `link-label${route.isCrowded ? " crowded" : ""}`, x, y: y + 4, "text-anchor": "middle" }, route.label);
  for (const [event, isPointed] of [["pointerenter", true], ["pointerleave", false]] as const) {
    line.addEventListener(event, () => [line, label].forEach((part) => part.classList.toggle("pointed", isPointed)));
  }
  return { line, label };
}

/** Returns the connectors that cross a view as one SVG path; all of them if the view is null. */
export const buildConnectorsPath = ({ connectors }: Layout, view: Box | null): string =>
  connectors.flatMap(({ path, box }) => (!view || intersects(box, view) ? path : [])).join("");

// Browsers paint one path with hundreds of self-intersections more slowly than many short paths.
const LINKS_PER_PATH = 40;

/** Returns the links of the overview: straight lines, merged into a few paths. */
export function buildStraightLinkPaths(routes: LinkRoute[]): string[] {
  const lines = routes.map(({ ends: [[x1, y1], [x2, y2]] }) => `M${Math.round(x1)} ${Math.round(y1)}L${Math.round(x2)} ${Math.round(y2)}`);
  return Array.from({ length: Math.ceil(lines.length / LINKS_PER_PATH) }, (_, part) =>
    lines.slice(part * LINKS_PER_PATH, (part + 1) * LINKS_PER_PATH).join(""),
  );
}
