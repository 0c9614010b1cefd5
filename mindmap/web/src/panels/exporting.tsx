// The map as a file to keep.

import { exported, Failure } from "../api/client";
import { app, viewOf } from "../state/app";
import { notify } from "../state/actions";
import { asSvg } from "../render/picture";
import { panes } from "../state/panes";
import { Menu } from "./menu";

type Form = "svg" | "markdown" | "mermaid" | "json";

const FORMS: [Form, string, string, string][] = [
  ["svg", "Picture", "SVG of what is open", "svg"],
  ["markdown", "Markdown", "Tree, files, links and log", "md"],
  ["mermaid", "Mermaid", "Flowchart for other documents", "mmd"],
  ["json", "JSON", "The whole document", "json"],
];

export const ExportMenu = () => (
  <Menu icon="download" label="Export">
    {(close) => (
      <ul class="exports">
        {FORMS.map(([form, name, meaning, ending]) => (
          <li key={form}>
            <button
              type="button"
              onClick={() => {
                void save(form, ending);
                close();
              }}
            >
              <strong>{name}</strong>
              <span>{meaning}</span>
            </button>
          </li>
        ))}
      </ul>
    )}
  </Menu>
);

async function save(form: Form, ending: string): Promise<void> {
  const { map } = app.get();
  if (!map) return;
  try {
    const text = form === "svg" ? picture() : await exported(map.id, form);
    download(text, `${named(map.title)}.${ending}`, form === "svg" ? "image/svg+xml" : "text/plain");
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    notify(`Export failed: ${error.message} ${error.hint}`.trim(), true);
  }
}

function picture(): string {
  const state = app.get();
  const drawings = [...panes.values()].flatMap(({ scene }) => scene.shown ?? []);
  return asSvg(drawings, `${state.map!.title}, ${viewOf(state)}`);
}

const named = (title: string): string => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/gu, "").slice(0, 60) || "mindmap";

function download(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
