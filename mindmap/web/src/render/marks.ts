// How cards and links stand out: chosen, pointed at, lit, stepping back, new.

import type { Freshness } from "../model/changes";
import type { Route } from "../layout/links";
import type { DrawnLink } from "./links";

export interface Look {
  selected: string | null;
  pointed: string | null;
  lit: ReadonlySet<string>;
  /** Everything that is not among these steps back; none when nothing does. */
  only: ReadonlySet<string> | null;
  fresh: ReadonlyMap<string, Freshness>;
}

export const PLAIN: Look = { selected: null, pointed: null, lit: new Set(), only: null, fresh: new Map() };

export const isSame = (one: Look, other: Look): boolean =>
  one.selected === other.selected &&
  one.pointed === other.pointed &&
  one.lit === other.lit &&
  one.only === other.only &&
  one.fresh === other.fresh;

/** A look at what is drawn: where nodes are folded away, at the cards above them. */
export class Marks {
  readonly selected: string | null;
  readonly only: ReadonlySet<string> | null;
  private readonly pointed: string | null;
  private readonly lit: ReadonlySet<string>;
  private readonly added = new Set<string>();
  private readonly changed = new Set<string>();

  constructor(look: Look, home: Map<string, string>) {
    const homes = (ids: Iterable<string>): Set<string> => new Set([...ids].flatMap((id) => home.get(id) ?? []));
    this.selected = home.get(look.selected ?? "") ?? null;
    this.pointed = home.get(look.pointed ?? "") ?? null;
    this.lit = homes(look.lit);
    this.only = look.only && homes(look.only);
    for (const [id, kind] of look.fresh) {
      const card = home.get(id);
      if (card) (kind === "added" ? this.added : this.changed).add(card);
    }
  }

  isFaded(id: string): boolean {
    return this.only !== null && !this.only.has(id) && id !== this.selected;
  }

  card(id: string, group: SVGGElement): void {
    set(group, "selected", id === this.selected);
    set(group, "pointed", id === this.pointed);
    set(group, "lit", this.lit.has(id));
    set(group, "faded", this.isFaded(id));
    set(group, "added", this.added.has(id));
    set(group, "changed", this.changed.has(id) && !this.added.has(id));
    group.setAttribute("aria-selected", String(id === this.selected));
  }

  link({ run, label }: DrawnLink, { from, to }: Route): void {
    const hot = [this.selected, this.pointed].some((id) => id === from || id === to);
    const faded = this.only !== null && !hot && !(this.only.has(from) && this.only.has(to));
    for (const part of label ? [run, label] : [run]) {
      set(part, "hot", hot);
      set(part, "faded", faded);
    }
  }
}

const set = (part: Element, name: string, on: boolean): void => void part.classList.toggle(name, on);
