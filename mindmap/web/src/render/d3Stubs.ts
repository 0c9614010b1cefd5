// Stubs for d3-transition and d3-interpolate, which would be a fifth of the script. d3-zoom uses them for its own
// animations, which camera.ts replaces, and calls `interrupt` before every move.

import { selection } from "d3-selection";

export function interrupt(): void {
  // The page starts no d3 transition.
}

selection.prototype.interrupt = function interruptNothing(this: unknown) {
  return this as never;
};

/** Only used by d3-zoom's own animations. */
export const interpolateZoom = undefined;
