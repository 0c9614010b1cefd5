// Keyed set of drawn elements. An update removes obsolete elements at once, keeps those that look the same, and draws
// new ones in time slices.

// Time to draw in one animation frame. The browser's layout and paint take as long again, so that both together take half
// of the 16 ms of a frame.
const SLICE_MS = 4;

interface LayerEntry<Thing, Drawn> {
  thing: Thing;
  drawn: Drawn;
}

export class Layer<Thing, Drawn> {
  private readonly entries = new Map<string, LayerEntry<Thing, Drawn>>();
  private pending: [string, Thing][] = [];

  constructor(
    private readonly draw: (key: string, thing: Thing) => Drawn,
    private readonly remove: (drawn: Drawn) => void,
    private readonly isSame: (a: Thing, b: Thing) => boolean,
  ) {}

  /** Removes the elements of obsolete and changed things now, and queues the things to draw, in the order of the argument. */
  update(things: Map<string, Thing>): void {
    for (const [key, { thing, drawn }] of this.entries) {
      const next = things.get(key);
      if (next && this.isSame(next, thing)) {
        this.entries.set(key, { thing: next, drawn });
      } else {
        this.remove(drawn);
        this.entries.delete(key);
      }
    }
    this.pending = [...things].filter(([key]) => !this.entries.has(key)).reverse();
  }

  /** Draws pending things until the deadline; returns true if none is left. */
  drawPending(deadline: number): boolean {
    while (this.pending.length && performance.now() < deadline) {
      const [key, thing] = this.pending.pop()!;
      this.entries.set(key, { thing, drawn: this.draw(key, thing) });
    }
    return !this.pending.length;
  }

  forEach(act: (key: string, drawn: Drawn, thing: Thing) => void): void {
    for (const [key, { thing, drawn }] of this.entries) act(key, drawn, thing);
  }
}

/** Draws pending things of the layers for one time slice; returns true if none is left. */
export function drawSlice(...layers: { drawPending: (deadline: number) => boolean }[]): boolean {
  const deadline = performance.now() + SLICE_MS;
  return layers.every((layer) => layer.drawPending(deadline));
}
