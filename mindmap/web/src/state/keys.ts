// Keyboard shortcuts, and the arrow keys in the tree of a pane or in the outline.

import { type Branch, getTree, walkTree } from "../model/tree";
import * as actions from "./actions";
import { app, getCollapsed, isOutlineShown, VIEWS } from "./app";
import { collapseTree } from "./collapse";
import { fitAll, getCurrentPane, zoomIn, zoomOut } from "./panes";
import { switchTheme } from "./storage";

interface KeyBinding {
  /** Values of `KeyboardEvent.key`. */
  keys: string[];
  /** Names of the keys in the help. */
  labels: string[];
  description: string;
  run: (key: string) => void;
}

// Distance by which one key press moves the view, about a third of a card.
const PAN_PIXELS = 80;

export const KEY_BINDINGS: KeyBinding[] = [
  { keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"], labels: ["↑", "↓", "←", "→"], description: "Move through the tree; ← and → also collapse and expand", run: navigateTree },
  { keys: [" "], labels: ["Space"], description: "Collapse or expand", run: () => toggleSelected() },
  { keys: ["Enter"], labels: ["Enter"], description: "Read the node in the side panel", run: () => focusPanel() },
  { keys: ["/"], labels: ["/"], description: "Search", run: () => document.getElementById("search")?.focus() },
  { keys: ["n", "N"], labels: ["n", "N"], description: "Next or previous match", run: (key) => actions.selectNextMatch(key === "n" ? 1 : -1) },
  { keys: ["g"], labels: ["g"], description: "Zoom to the selected node, else to the task in progress", run: actions.zoomToNode },
  { keys: ["u"], labels: ["u"], description: "Show the next node that changed while you were away", run: actions.showNextUnseen },
  { keys: ["[", "]"], labels: ["[", "]"], description: "Step back or forward in the log", run: (key) => actions.stepThroughLog(key === "[" ? 1 : -1) },
  { keys: ["F"], labels: ["Shift", "F"], description: "Follow the agent: select what it changes", run: () => app.set({ isFollowing: !app.get().isFollowing }) },
  { keys: ["1", "2", "3", "4"], labels: ["1", "2", "3", "4"], description: "Side by side, whole map, plan, model", run: (key) => actions.showView(VIEWS[Number(key) - 1]!) },
  { keys: ["+", "=", "-"], labels: ["+", "-"], description: "Zoom in or out", run: (key) => (key === "-" ? zoomOut() : zoomIn()) },
  { keys: ["0"], labels: ["0"], description: "Fit all", run: fitAll },
  { keys: ["H", "J", "K", "L"], labels: ["H", "J", "K", "L"], description: "Move the view", run: (key) => panView(key) },
  { keys: ["e", "c"], labels: ["e", "c"], description: "Expand or collapse all", run: (key) => (key === "e" ? actions.expandAll() : actions.collapseAll()) },
  { keys: ["s"], labels: ["s"], description: "Attach the files with uncommitted changes", run: () => void actions.syncWithGit() },
  { keys: ["\\"], labels: ["\\"], description: "Open or close the panel", run: () => app.set({ isPanelOpen: !app.get().isPanelOpen }) },
  { keys: ["t"], labels: ["t"], description: "Theme: light, dark or system", run: switchTheme },
  { keys: ["h"], labels: ["h"], description: "All sessions", run: () => actions.openRoute({ map: null, node: null, view: null }) },
  { keys: ["Escape"], labels: ["Esc"], description: "Clear highlight, search or selection, one at a time", run: () => clearTopmost() },
  { keys: ["?"], labels: ["?"], description: "This help", run: () => app.set({ dialog: "help" }) },
];

// Keys that also work in the list of sessions, where no map is loaded.
const KEYS_WITHOUT_MAP = new Set(["?", "t", "h"]);

export function watchKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isHandledByInput(event) || isHelpOpen()) return;
    const binding = KEY_BINDINGS.find(({ keys }) => keys.includes(event.key));
    if (!binding || (!app.get().map && !KEYS_WITHOUT_MAP.has(event.key))) return;
    if (isHandledByControl(event)) return;
    event.preventDefault();
    binding.run(event.key);
  });
}

// A closed dialog stays in the state until its close event, one animation frame later. Keys before that event must work.
const isHelpOpen = (): boolean => !!app.get().dialog && document.querySelector("dialog")?.open !== false;

/** Checks whether the focused input handles the key itself. */
function isHandledByInput({ target, key }: KeyboardEvent): boolean {
  const element = target as HTMLElement;
  if (element instanceof HTMLInputElement && element.type === "range") return isMoveKey(key);
  if (element instanceof HTMLInputElement && element.type === "checkbox") return key === " ";
  return element instanceof HTMLInputElement;
}

const isMoveKey = (key: string): boolean => key.startsWith("Arrow") || key === "Home" || key === "End";

/** Checks whether a focused control, such as a button, handles the key itself. The rows of an outline do not handle the arrow keys. */
function isHandledByControl({ target, key }: KeyboardEvent): boolean {
  const element = target as HTMLElement;
  if (isMoveKey(key) && element.closest(".outline-rows")) return false;
  return (isMoveKey(key) || key === "Enter" || key === " ") && !!element.closest("button, a, label, .side-body");
}

function toggleSelected(): void {
  const { route, map } = app.get();
  if (route.node && map?.nodes[route.node]?.children.length) actions.toggleCollapsed(route.node);
}

function focusPanel(): void {
  app.set({ isPanelOpen: true, tab: "node" });
  // The microtask runs after the panel is rendered and before the next key.
  queueMicrotask(() => document.getElementById("side-body")?.focus());
}

function panView(key: string): void {
  const offsets: Record<string, [number, number]> = { H: [PAN_PIXELS, 0], L: [-PAN_PIXELS, 0], K: [0, PAN_PIXELS], J: [0, -PAN_PIXELS] };
  getCurrentPane()?.scene.panBy(...offsets[key]!);
}

/** Clears the first of these that is set: log entry, file, search, selection. */
function clearTopmost(): void {
  const { logIndex, file, search, types, statuses } = app.get();
  if (logIndex !== null) actions.showLogEntry(null);
  else if (file !== null) app.set({ file: null });
  else if (search || types.size || statuses.size) actions.clearSearch();
  else actions.select(null);
}

// ---- arrow keys, following the ARIA tree pattern

/** The tree that the arrow keys move through. */
interface VisibleTree {
  /** Visible rows of the outline, or cards of the pane, by node id in display order. */
  rows: Map<string, { branch: Branch; isCollapsed: boolean }>;
  /** Id of the row that shows the selected node: its own row, or the row of its collapsed ancestor. */
  current: string | undefined;
}

export function navigateTree(key: string): void {
  const { rows, current } = getVisibleTree();
  const ids = [...rows.keys()];
  const row = rows.get(current ?? "");
  if (!row) {
    selectIfPresent(ids[0]);
    return;
  }
  const { branch, isCollapsed } = row;
  if (key === "ArrowRight" && isCollapsed) actions.toggleCollapsed(branch.id);
  else if (key === "ArrowRight") selectIfPresent(branch.children[0]?.id);
  else if (key === "ArrowLeft" && branch.parent && branch.children.length) actions.toggleCollapsed(branch.id);
  else if (key === "ArrowLeft" && rows.has(branch.parent?.id ?? "")) selectIfPresent(branch.parent!.id);
  else {
    const index = ids.indexOf(branch.id);
    selectIfPresent(ids[{ ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: ids.length - 1 }[key] ?? index]);
  }
}

function getVisibleTree(): VisibleTree {
  const state = app.get();
  const selected = state.route.node ?? "";
  if (isOutlineShown(state) && state.map) {
    const { tree, hiddenCounts, visibleIdOf } = collapseTree(getTree(state.map), getCollapsed(state));
    const branches = [...walkTree(tree)].slice(1); // the outline has no row of the root
    return { rows: new Map(branches.map((branch) => [branch.id, { branch, isCollapsed: hiddenCounts.has(branch.id) }])), current: visibleIdOf.get(selected) };
  }
  const drawing = getCurrentPane()?.scene.currentDrawing;
  const cards = [...(drawing?.layout.cards ?? [])];
  return { rows: new Map(cards.map(([id, { branch, card }]) => [id, { branch, isCollapsed: card.isCollapsed }])), current: drawing?.visibleIdOf.get(selected) };
}

function selectIfPresent(id: string | undefined): void {
  if (id !== undefined) actions.select(id, { expandsAncestors: isOutlineShown(app.get()), historyStep: "move" });
}
