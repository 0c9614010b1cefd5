// Export menu, and the SVG file that shows the panes.

import { assertApiError, fetchExport } from "../api/client";
import type { Box } from "../layout/geometry";
import type { Drawing } from "../layout/links";
import { resolveColour } from "../render/canvas";
import { buildConnectorsPath, createCardElement, createLinkElements } from "../render/elements";
import { createElement } from "../render/svg";
import { formatError, notify } from "../state/actions";
import { app, getCurrentView } from "../state/app";
import { panes } from "../state/panes";
import cardStyle from "../style/cards.css";
import colours from "../style/colours.css";
import { Menu } from "./widgets";

type ExportFormat = "svg" | "markdown" | "mermaid" | "json";

// Format, name, description and file extension.
const EXPORT_FORMATS: [ExportFormat, string, string, string][] = [
  ["svg", "Picture", "SVG of the expanded cards", "svg"],
  ["markdown", "Markdown", "Tree, files, links and log", "md"],
  ["mermaid", "Mermaid", "Flowchart for other documents", "mmd"],
  ["json", "JSON", "The complete document", "json"],
];

export const ExportMenu = () => (
  <Menu icon="download" label="Export">
    {(close) => (
      <ul class="exports">
        {EXPORT_FORMATS.map(([format, name, description, extension]) => (
          <li key={format}>
            <button
              type="button"
              onClick={() => {
                void saveExport(format, extension);
                close();
              }}
            >
              <strong>{name}</strong>
              <span>{description}</span>
            </button>
          </li>
        ))}
      </ul>
    )}
  </Menu>
);

async function saveExport(format: ExportFormat, extension: string): Promise<void> {
  const { map } = app.get();
  if (!map) return;
  try {
    const text = format === "svg" ? createSvg() : await fetchExport(map.id, format);
    download(text, `${buildFileName(map.title)}.${extension}`, format === "svg" ? "image/svg+xml" : "text/plain");
  } catch (error) {
    assertApiError(error);
    notify(`Export failed: ${formatError(error)}`, true);
  }
}

function createSvg(): string {
  const state = app.get();
  const drawings = [...panes.values()].flatMap(({ scene }) => scene.currentDrawing ?? []);
  return exportSvg(drawings, `${state.map!.title}, ${getCurrentView(state)}`);
}

const buildFileName = (title: string): string => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/gu, "").slice(0, 60) || "mindmap";

function download(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // by then the browser has read the data
}

// ---- SVG file

const PICTURE_MARGIN = 32;
const PLACEHOLDER_POSITION = { level: 1, position: 1, count: 1 };

/** Returns a standalone SVG file of the drawings, with every card in full detail and the current colours. */
function exportSvg(drawings: Drawing[], title: string): string {
  let left = 0;
  const groups = drawings.map((drawing, number) => {
    const box = computeExportBounds(drawing);
    const links = drawing.routes.map(createLinkElements);
    const group = createElement("g", { transform: `translate(${left - box.x + PICTURE_MARGIN} ${PICTURE_MARGIN - box.y})` });
    group.append(
      createElement("path", { class: "connectors", d: buildConnectorsPath(drawing.layout, null) }),
      ...links.map(({ line }) => line),
      ...[...drawing.layout.cards.values()].map((placedCard) => removePageAttributes(createCardElement(placedCard, `p${number}`, PLACEHOLDER_POSITION))),
      ...links.flatMap(({ label }) => label ?? []),
    );
    left += box.width + 2 * PICTURE_MARGIN;
    return { group, box };
  });
  const height = Math.max(...groups.map(({ box }) => box.height), 0) + 2 * PICTURE_MARGIN;
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
