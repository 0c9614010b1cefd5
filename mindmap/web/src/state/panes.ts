// Registry of the panes on the screen, for keys and toolbar buttons.

import type { Scene } from "../render/scene";

export interface PaneHandle {
  scene: Scene;
  tree: HTMLElement;
  /** Repaints the canvases, which the style sheet does not reach. */
  repaint: () => void;
}

export const panes = new Map<string, PaneHandle>();

/** Returns the focused pane, or else the first. */
export function currentPane(): PaneHandle | null {
  const all = [...panes.values()];
  return all.find(({ tree }) => tree.contains(document.activeElement)) ?? all[0] ?? null;
}
