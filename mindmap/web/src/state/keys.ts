// What each key does. Inside a field letters are letters; in a tree the arrows go through it.

import { app } from "./app";
import * as actions from "./actions";
import { nextTheme } from "../panels/header";
import { fitAll } from "../panels/controls";
import { current } from "./panes";
import { VIEWS } from "./route";
import { arrow } from "./walking";

interface Key {
  keys: string[];
  shown: string[];
  meaning: string;
  act: (key: string) => void;
}

const PAN = 80;

export const KEYS: Key[] = [
  { keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"], shown: ["↑", "↓", "←", "→"], meaning: "Go through the tree; ← and → also fold and unfold", act: arrow },
  { keys: [" "], shown: ["Space"], meaning: "Fold or unfold", act: () => folding() },
  { keys: ["Enter"], shown: ["Enter"], meaning: "Read the node in the panel", act: () => intoPanel() },
  { keys: ["/"], shown: ["/"], meaning: "Search", act: () => document.getElementById("search")?.focus() },
  { keys: ["n", "N"], shown: ["n", "N"], meaning: "Next found, or the one before", act: (key) => actions.nextFound(key === "n" ? 1 : -1) },
  { keys: ["g"], shown: ["g"], meaning: "Go to the task in progress", act: actions.toActive },
  { keys: ["[", "]"], shown: ["[", "]"], meaning: "Step back and forth in the log", act: (key) => stepping(key) },
  { keys: ["F"], shown: ["Shift", "F"], meaning: "Follow what agents do", act: () => app.set({ follow: !app.get().follow }) },
  { keys: ["1", "2", "3", "4"], shown: ["1", "2", "3", "4"], meaning: "Side by side, whole map, plan, model", act: (key) => actions.show(VIEWS[Number(key) - 1]!) },
  { keys: ["+", "=", "-"], shown: ["+", "-"], meaning: "Closer, wider", act: (key) => current()?.scene.scaleBy(key === "-" ? 1 / 1.3 : 1.3) },
  { keys: ["0"], shown: ["0"], meaning: "Fit all", act: fitAll },
  { keys: ["H", "J", "K", "L"], shown: ["H", "J", "K", "L"], meaning: "Move the view", act: (key) => panning(key) },
  { keys: ["e", "c"], shown: ["e", "c"], meaning: "Unfold or fold everything", act: (key) => (key === "e" ? actions.expandAll() : actions.collapseAll()) },
  { keys: ["s"], shown: ["s"], meaning: "Sync with git", act: () => void actions.sync() },
  { keys: ["\\"], shown: ["\\"], meaning: "Open or close the panel", act: () => app.set({ panel: !app.get().panel }) },
  { keys: ["t"], shown: ["t"], meaning: "Light, dark, or the system's", act: nextTheme },
  { keys: ["h"], shown: ["h"], meaning: "All sessions", act: () => leaving() },
  { keys: ["Escape"], shown: ["Esc"], meaning: "Clear what is lit, found and selected", act: () => clearing() },
  { keys: ["?"], shown: ["?"], meaning: "This sheet", act: () => app.set({ dialog: "help" }) },
];

const WITHOUT_MAP = new Set(["?", "t", "h"]);

export function watchKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyped(event) || isSheetOpen()) return;
    const key = KEYS.find(({ keys }) => keys.includes(event.key));
    if (!key || (!app.get().map && !WITHOUT_MAP.has(event.key))) return;
    if (isPressed(event)) return;
    event.preventDefault();
    key.act(event.key);
  });
}

/** A closed sheet tells the state a frame later, and the next key may come before. */
const isSheetOpen = (): boolean => !!app.get().dialog && document.querySelector("dialog")?.open !== false;

/** Whether the key belongs to what has the focus: letters to a field, arrows to a slider, Enter to a button. */
function isTyped({ target, key }: KeyboardEvent): boolean {
  const at = target as HTMLElement;
  if (at instanceof HTMLInputElement && at.type === "range") return key.startsWith("Arrow") || key === "Home" || key === "End";
  if (at instanceof HTMLInputElement && at.type === "checkbox") return key === " ";
  return at instanceof HTMLInputElement;
}

const isPressed = ({ target, key }: KeyboardEvent): boolean =>
  (key === "Enter" || key === " " || key.startsWith("Arrow") || key === "Home" || key === "End") &&
  !!(target as HTMLElement).closest("button, a, label, .side-body");

function folding(): void {
  const { route, map } = app.get();
  if (route.node && map?.nodes[route.node]?.children.length) actions.toggle(route.node);
}

function intoPanel(): void {
  app.set({ panel: true, tab: "node" });
  // Drawn by then, and no key has come.
  queueMicrotask(() => document.getElementById("side-body")?.focus());
}

function leaving(): void {
  location.hash = "#/";
  actions.readRoute(); // the browser tells of it later, and the next key may come before
}

function stepping(key: string): void {
  const { step } = app.get();
  if (key === "[") actions.stepBy(1);
  else if (step !== null) actions.stepTo(step === 0 ? null : step - 1);
}

function panning(key: string): void {
  const by: Record<string, [number, number]> = { H: [PAN, 0], L: [-PAN, 0], K: [0, PAN], J: [0, -PAN] };
  current()?.scene.panBy(...by[key]!);
}

/** One thing at a time: what lies on top first. */
function clearing(): void {
  const { step, file, search, types, statuses } = app.get();
  if (step !== null) actions.stepTo(null);
  else if (file !== null) app.set({ file: null });
  else if (search || types.size || statuses.size) actions.clearSearch();
  else actions.select(null);
}
