// Registry of the panes on the screen, for keys and toolbar buttons.

import type { Scene } from "../render/scene";

export interface PaneHandle {
  scene: Scene;
  tree: HTMLElement;
  /** Lays the map out again, after a change of the pane's size. */
  layOutAgain: () => void;
  /** Repaints the canvases, which the style sheet does not reach. */
  repaint: () => void;
}

/** Functions to call after a move of a pane's view, or a change of its drawing or colours. `isRepaint` is true after a change of the colours. */
export const viewListeners = new Set<(isRepaint?: boolean) => void>();

export function notifyViewListeners(isRepaint = false): void {
  for (const listener of viewListeners) listener(isRepaint);
}

export const panes = new Map<string, PaneHandle>();

/** Returns the focused pane, or else the first. */
export function getCurrentPane(): PaneHandle | null {
  const allPanes = [...panes.values()];
  return allPanes.find(({ tree }) => tree.contains(document.activeElement)) ?? allPanes[0] ?? null;
}

// Change of the scale by one press of a button or key.
const ZOOM_FACTOR = 1.3;

export const zoomIn = (): void => getCurrentPane()?.scene.scaleBy(ZOOM_FACTOR);
export const zoomOut = (): void => getCurrentPane()?.scene.scaleBy(1 / ZOOM_FACTOR);
export const fitAll = (): void => panes.forEach(({ scene }) => scene.fit());
