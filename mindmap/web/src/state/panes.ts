// The panes on the screen, for keys and buttons that move in them.

import type { Scene } from "../render/scene";

export interface Shown {
  scene: Scene;
  tree: HTMLElement;
  /** Paints anew what no style sheet reaches. */
  recolour: () => void;
}

export const panes = new Map<string, Shown>();

/** The pane that has the focus, or else the first. */
export function current(): Shown | null {
  const all = [...panes.values()];
  return all.find(({ tree }) => tree.contains(document.activeElement)) ?? all[0] ?? null;
}
