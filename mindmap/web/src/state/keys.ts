// Keyboard shortcuts.

import { app } from "./app";
import * as actions from "./actions";
import { nextTheme } from "../panels/header";
import { fitAll } from "../panels/controls";
import { currentPane } from "./panes";
import { VIEWS } from "./route";
import { navigateTree } from "./treeNavigation";

interface KeyBinding {
  keys: string[];
  labels: string[];
  meaning: string;
  run: (key: string) => void;
}

const PAN_PIXELS = 80;

export const KEY_BINDINGS: KeyBinding[] = [
  { keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"], labels: ["↑", "↓", "←", "→"], meaning: "Move through the tree; ← and → also collapse and expand", run: navigateTree },
  { keys: [" "], labels: ["Space"], meaning: "Collapse or expand", run: () => toggleSelected() },
  { keys: ["Enter"], labels: ["Enter"], meaning: "Read the node in the side panel", run: () => focusPanel() },
  { keys: ["/"], labels: ["/"], meaning: "Search", run: () => document.getElementById("search")?.focus() },
  { keys: ["n", "N"], labels: ["n", "N"], meaning: "Next or previous match", run: (key) => actions.selectNextMatch(key === "n" ? 1 : -1) },
  { keys: ["g"], labels: ["g"], meaning: "Go to the task in progress", run: actions.goToActiveTask },
  { keys: ["[", "]"], labels: ["[", "]"], meaning: "Step back or forward in the log", run: (key) => stepThroughLog(key) },
  { keys: ["F"], labels: ["Shift", "F"], meaning: "Follow what agents do", run: () => app.set({ isFollowing: !app.get().isFollowing }) },
  { keys: ["1", "2", "3", "4"], labels: ["1", "2", "3", "4"], meaning: "Side by side, whole map, plan, model", run: (key) => actions.showView(VIEWS[Number(key) - 1]!) },
  { keys: ["+", "=", "-"], labels: ["+", "-"], meaning: "Zoom in or out", run: (key) => currentPane()?.scene.scaleBy(key === "-" ? 1 / 1.3 : 1.3) },
  { keys: ["0"], labels: ["0"], meaning: "Fit all", run: fitAll },
  { keys: ["H", "J", "K", "L"], labels: ["H", "J", "K", "L"], meaning: "Move the view", run: (key) => panView(key) },
  { keys: ["e", "c"], labels: ["e", "c"], meaning: "Expand or collapse all", run: (key) => (key === "e" ? actions.expandAll() : actions.collapseAll()) },
  { keys: ["s"], labels: ["s"], meaning: "Sync with git", run: () => void actions.syncWithGit() },
  { keys: ["\\"], labels: ["\\"], meaning: "Open or close the panel", run: () => app.set({ isPanelOpen: !app.get().isPanelOpen }) },
  { keys: ["t"], labels: ["t"], meaning: "Theme: light, dark or system", run: nextTheme },
  { keys: ["h"], labels: ["h"], meaning: "All sessions", run: () => goToSessions() },
  { keys: ["Escape"], labels: ["Esc"], meaning: "Clear highlights, search and selection", run: () => clearTopmost() },
  { keys: ["?"], labels: ["?"], meaning: "This help", run: () => app.set({ dialog: "help" }) },
];

const KEYS_WITHOUT_MAP = new Set(["?", "t", "h"]);

export function watchKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isInputKey(event) || isHelpOpen()) return;
    const key = KEY_BINDINGS.find(({ keys }) => keys.includes(event.key));
    if (!key || (!app.get().map && !KEYS_WITHOUT_MAP.has(event.key))) return;
    if (isControlKey(event)) return;
    event.preventDefault();
    key.run(event.key);
  });
}

/** The close event of a dialog arrives a frame late, and another key can come before it. */
const isHelpOpen = (): boolean => !!app.get().dialog && document.querySelector("dialog")?.open !== false;

/** Returns true if the focused input handles the key itself. */
function isInputKey({ target, key }: KeyboardEvent): boolean {
  const element = target as HTMLElement;
  if (element instanceof HTMLInputElement && element.type === "range") return key.startsWith("Arrow") || key === "Home" || key === "End";
  if (element instanceof HTMLInputElement && element.type === "checkbox") return key === " ";
  return element instanceof HTMLInputElement;
}

const isControlKey = ({ target, key }: KeyboardEvent): boolean =>
  (key === "Enter" || key === " " || key.startsWith("Arrow") || key === "Home" || key === "End") &&
  !!(target as HTMLElement).closest("button, a, label, .side-body");

function toggleSelected(): void {
  const { route, map } = app.get();
  if (route.node && map?.nodes[route.node]?.children.length) actions.toggleCollapsed(route.node);
}

function focusPanel(): void {
  app.set({ isPanelOpen: true, tab: "node" });
  // The panel is rendered by then, and no other key was handled.
  queueMicrotask(() => document.getElementById("side-body")?.focus());
}

function goToSessions(): void {
  location.hash = "#/";
  actions.readRoute(); // the hashchange event arrives late, and another key can come before it
}

function stepThroughLog(key: string): void {
  const { step } = app.get();
  if (key === "[") actions.stepBy(1);
  else if (step !== null) actions.stepTo(step === 0 ? null : step - 1);
}

function panView(key: string): void {
  const offsets: Record<string, [number, number]> = { H: [PAN_PIXELS, 0], L: [-PAN_PIXELS, 0], K: [0, PAN_PIXELS], J: [0, -PAN_PIXELS] };
  currentPane()?.scene.panBy(...offsets[key]!);
}

/** Clears one thing at a time, the topmost first. */
function clearTopmost(): void {
  const { step, file, search, types, statuses } = app.get();
  if (step !== null) actions.stepTo(null);
  else if (file !== null) app.set({ file: null });
  else if (search || types.size || statuses.size) actions.clearSearch();
  else actions.select(null);
}
