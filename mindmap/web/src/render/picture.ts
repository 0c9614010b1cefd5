// What the panes show as one SVG file that stands by itself: every card, near, in the colours of the moment.

import type { Drawing } from "../layout/drawing";
import type { Box } from "../layout/layout";
import cardStyle from "../style/cards.css";
import colours from "../style/colours.css";
import { drawnCard } from "./card";
import { colourOf } from "./colours";
import { branches, drawnLink } from "./links";
import { element } from "./svg";

const MARGIN = 32;
const SIDE = { level: 1, place: 1, of: 1 };

export function asSvg(drawings: Drawing[], title: string): string {
  let left = 0;
  const groups = drawings.map((drawing, number) => {
    const box = boundsOf(drawing);
    const links = drawing.routes.map(drawnLink);
    const group = element("g", { transform: `translate(${left - box.x + MARGIN} ${MARGIN - box.y})` });
    group.append(
      element("path", { class: "branches", d: branches(drawing.layout, null) }),
      ...links.map(({ run }) => run),
      ...[...drawing.layout.places.values()].map((place) => plain(drawnCard(place, `p${number}`, SIDE))),
      ...links.flatMap(({ label }) => label ?? []),
    );
    left += box.width + 2 * MARGIN;
    return { group, box };
  });
  const height = Math.max(...groups.map(({ box }) => box.height), 0) + 2 * MARGIN;
  const svg = element("svg", { viewBox: `0 0 ${left} ${height}`, width: left, height, class: "scene" });
  svg.append(element("title", {}, title), element("rect", { class: "ground", width: left, height }), ...groups.map(({ group }) => group));
  const text = new XMLSerializer().serializeToString(svg);
  const end = text.indexOf(">") + 1;
  // Put in as text: the page's policy allows no style element, not even one that is never shown.
  return `${text.slice(0, end)}<style>${cardStyle.replace(/&/gu, "&amp;").replace(/</gu, "&lt;")}${settled()}</style>${text.slice(end)}\n`;
}

// What is there for readers of the screen, of which a file has none.
function plain(card: SVGGElement): SVGGElement {
  for (const name of [...card.getAttributeNames()]) if (/^(?:aria-|role|id|data-)/u.test(name)) card.removeAttribute(name);
  return card;
}

// The lugs of components stand out on the left, the numbers of what is folded away on the right.
const boundsOf = ({ layout: { bounds } }: Drawing): Box => ({ ...bounds, x: bounds.x - 6, width: bounds.width + 30 });

/** The colours as they are now, light or dark. */
function settled(): string {
  const names = new Set([...colours.matchAll(/--[\w-]+/gu)].map(([name]) => name));
  return `.scene{${[...names].map((name) => `${name}:${colourOf(name)}`).join(";")}}`;
}
