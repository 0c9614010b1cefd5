// Things drawn under a key each: what is not wanted any more goes at once, what is new comes in slices,
// what looks the same stays.

// Making takes about as long as the browser then takes to lay out and paint: together half a frame.
const SLICE_MS = 4;

interface Made<Thing, Drawn> {
  thing: Thing;
  drawn: Drawn;
}

export class Layer<Thing, Drawn> {
  private readonly made = new Map<string, Made<Thing, Drawn>>();
  private missing: [string, Thing][] = [];

  constructor(
    private readonly draw: (key: string, thing: Thing) => Drawn,
    private readonly remove: (drawn: Drawn) => void,
    private readonly isSame: (one: Thing, other: Thing) => boolean,
  ) {}

  /** What is to be there, the first of it first. */
  want(things: Map<string, Thing>): void {
    for (const [key, { thing, drawn }] of this.made) {
      const wanted = things.get(key);
      if (wanted && this.isSame(wanted, thing)) {
        this.made.set(key, { thing: wanted, drawn });
      } else {
        this.remove(drawn);
        this.made.delete(key);
      }
    }
    this.missing = [...things].filter(([key]) => !this.made.has(key)).reverse();
  }

  /** Draws what is missing until a moment; whether all of it is there. */
  fill(until: number): boolean {
    while (this.missing.length && performance.now() < until) {
      const [key, thing] = this.missing.pop()!;
      this.made.set(key, { thing, drawn: this.draw(key, thing) });
    }
    return !this.missing.length;
  }

  each(act: (key: string, drawn: Drawn, thing: Thing) => void): void {
    for (const [key, { thing, drawn }] of this.made) act(key, drawn, thing);
  }
}

/** Fills one layer after the other for as long as a slice is; whether all are full. */
export function filled(...layers: { fill: (until: number) => boolean }[]): boolean {
  const until = performance.now() + SLICE_MS;
  return layers.every((layer) => layer.fill(until));
}
