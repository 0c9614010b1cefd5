// A card as it is drawn.

import type { MapNode } from "../api/types";
import { percent } from "../model/progress";
import { isTask } from "../model/tree";
import { CARD, type Card, spoken } from "../layout/card";
import type { Place } from "../layout/layout";
import { type Icon, iconOf } from "./icons";
import { outline } from "./shapes";
import { element } from "./svg";

/** Position in its row, for readers of the screen: level, place and how many. */
export interface Standing {
  level: number;
  place: number;
  of: number;
}

export function drawnCard(place: Place, prefix: string, standing: Standing): SVGGElement {
  const { card, branch } = place;
  const { node } = branch;
  const status = statusOf(node);
  const group = element("g", {
    class: `card t-${known(node.type)}${status ? ` s-${known(status)}` : ""}`,
    transform: `translate(${place.x} ${place.y})`,
    id: `${prefix}-${node.id}`,
    "data-id": node.id,
    role: "treeitem",
    "aria-label": spoken(node, card),
    "aria-level": standing.level,
    "aria-posinset": standing.place,
    "aria-setsize": standing.of,
    "aria-expanded": card.foldable ? String(!card.folded) : undefined,
    "aria-selected": "false",
  });
  group.append(
    element("path", { class: "shape", d: outline(node.type, card.width, card.height) }),
    icon(iconOf(node.type, status), CARD.pad, CARD.pad - 1, "icon"),
    ...texts(card),
    ...footer(card),
  );
  if (card.foldable) group.append(toggle(card));
  return group;
}

export const statusOf = (node: MapNode): string | null => (isTask(node) ? (node.status ?? "planned") : null);

// What stands in a class must be no more than a word.
const known = (word: string): string => word.replace(/[^a-z_]/gu, "");

export function icon({ line, solid }: Icon, x: number, y: number, name: string): SVGGElement {
  return element(
    "g",
    { class: name, transform: `translate(${x} ${y})`, "aria-hidden": "true" },
    line ? element("path", { class: "line", d: line }) : null,
    solid ? element("path", { class: "solid", d: solid }) : null,
  );
}

function texts(card: Card): SVGTextElement[] {
  const x = CARD.pad + CARD.icon - 6;
  const top = CARD.pad + 11;
  const lines = card.lines.map((line, row) =>
    element("text", { class: "label", x, y: top + row * CARD.line + (card.caption ? CARD.caption : 0) }, line),
  );
  return card.caption ? [element("text", { class: "caption", x, y: top - 2 }, card.caption.toUpperCase()), ...lines] : lines;
}

function footer(card: Card): SVGElement[] {
  const y = card.height - CARD.pad + 1;
  const drawn: SVGElement[] = [];
  if (card.files) drawn.push(element("text", { class: "files", x: CARD.pad + CARD.icon - 6, y }, card.files));
  if (!card.progress) return drawn;
  const { done, total } = card.progress;
  const width = 44;
  const x = card.width - CARD.pad - width - 8;
  drawn.push(
    element("text", { class: "count", x: x - 6, y, "text-anchor": "end" }, `${done}/${total}`),
    element("rect", { class: "bar", x, y: y - 7, width, height: 5, rx: 2.5 }),
  );
  if (done) {
    const filled = Math.max(5, (width * percent(card.progress)) / 100);
    drawn.push(element("rect", { class: "filled", x, y: y - 7, width: filled, height: 5, rx: 2.5 }));
  }
  return drawn;
}

function toggle(card: Card): SVGGElement {
  const text = card.folded ? String(card.hidden) : "−";
  const width = Math.max(18, 10 + 7 * text.length);
  return element(
    "g",
    { class: "toggle", transform: `translate(${card.width} ${card.height / 2})`, "aria-hidden": "true" },
    element("rect", { x: -9, y: -9, width, height: 18, rx: 9 }),
    element("text", { x: -9 + width / 2, y: 4, "text-anchor": "middle" }, text),
  );
}
