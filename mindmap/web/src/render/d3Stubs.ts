// Stubs for d3-transition and d3-interpolate, a fifth of the script's size. d3-zoom uses them for its own animations,
// which this page replaces (see camera.ts), and calls `interrupt` otherwise.

import { selection } from "d3-selection";

export function interrupt(): void {
  // no d3 transition is ever running
}

selection.prototype.interrupt = function still(this: unknown) {
  return this as never;
};

/** Only used by d3-zoom's own animations. */
export const interpolateZoom = undefined;
