// Export menu.

import { assertApiError, fetchExport } from "../api/client";
import { app, getCurrentView } from "../state/app";
import { formatError, notify } from "../state/actions";
import { exportSvg } from "../render/svgExport";
import { panes } from "../state/panes";
import { Menu } from "./menu";

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
