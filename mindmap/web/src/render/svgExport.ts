// Export of the panes as one standalone SVG file, with every card in full detail and the current colours.

import type { Drawing } from "../layout/drawing";
import type { Box } from "../layout/layout";
import cardStyle from "../style/cards.css";
import colours from "../style/colours.css";
import { createCardElement } from "./card";
import { resolveColour } from "./colours";
import { buildConnectorsPath, createLinkElements } from "./links";
import { createElement } from "./svg";

const MARGIN = 32;
const PLACEHOLDER_POSITION = { level: 1, position: 1, count: 1 };

export function exportSvg(drawings: Drawing[], title: string): string {
  let left = 0;
  const groups = drawings.map((drawing, number) => {
    const box = computeExportBounds(drawing);
    const links = drawing.routes.map(createLinkElements);
    const group = createElement("g", { transform: `translate(${left - box.x + MARGIN} ${MARGIN - box.y})` });
    group.append(
      createElement("path", { class: "connectors", d: buildConnectorsPath(drawing.layout, null) }),
      ...links.map(({ line }) => line),
      ...[...drawing.layout.cards.values()].map((placedCard) => removePageAttributes(createCardElement(placedCard, `p${number}`, PLACEHOLDER_POSITION))),
      ...links.flatMap(({ label }) => label ?? []),
    );
    left += box.width + 2 * MARGIN;
    return { group, box };
  });
  const height = Math.max(...groups.map(({ box }) => box.height), 0) + 2 * MARGIN;
  const svg = createElement("svg", { viewBox: `0 0 ${left} ${height}`, width: left, height, class: "scene" });
  svg.append(createElement("title", {}, title), createElement("rect", { class: "ground", width: left, height }), ...groups.map(({ group }) => group));
  const text = new XMLSerializer().serializeToString(svg);
  const end = text.indexOf(">") + 1;
  // Inserted as text, because the page's content security policy forbids style elements.
  return `${text.slice(0, end)}<style>${cardStyle.replace(/&/gu, "&amp;").replace(/</gu, "&lt;")}${buildColourDeclarations()}</style>${text.slice(end)}\n`;
}

// The exported picture needs no attributes for screen readers and scripts.
function removePageAttributes(card: SVGGElement): SVGGElement {
  for (const name of [...card.getAttributeNames()]) if (/^(?:aria-|role|id|data-)/u.test(name)) card.removeAttribute(name);
  return card;
}

// Adds space for the lugs of components on the left and the collapse buttons on the right.
const computeExportBounds = ({ layout: { bounds } }: Drawing): Box => ({ ...bounds, x: bounds.x - 6, width: bounds.width + 30 });

/** Returns the current colours as CSS declarations. */
function buildColourDeclarations(): string {
  const names = new Set([...colours.matchAll(/--[\w-]+/gu)].map(([name]) => name));
  return `.scene{${[...names].map((name) => `${name}:${resolveColour(name)}`).join(";")}}`;
}
