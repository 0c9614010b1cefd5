// In place of d3-transition and d3-interpolate, of which d3-zoom asks one thing only as long as nothing glides by
// their means: to end what is gliding. Our own gliding is a dozen lines; theirs comes with easings, timers and
// colours, a fifth of the whole script.

import { selection } from "d3-selection";

export function interrupt(): void {
  // nothing of theirs moves
}

selection.prototype.interrupt = function still(this: unknown) {
  return this as never;
};

/** What theirs would glide along. */
export const interpolateZoom = undefined;
