// Highlighting of cards and links: selected, hovered, related, faded, added, changed.

import type { ChangeKind } from "../model/changes";
import type { LinkRoute } from "../layout/links";
import type { LinkElements } from "./links";

export interface Highlight {
  selected: string | null;
  hovered: string | null;
  related: ReadonlySet<string>;
  /** All other nodes are faded; null if none is. */
  only: ReadonlySet<string> | null;
  recentChanges: ReadonlyMap<string, ChangeKind>;
}

export const NO_HIGHLIGHT: Highlight = { selected: null, hovered: null, related: new Set(), only: null, recentChanges: new Map() };

export const isSameHighlight = (a: Highlight, b: Highlight): boolean =>
  a.selected === b.selected &&
  a.hovered === b.hovered &&
  a.related === b.related &&
  a.only === b.only &&
  a.recentChanges === b.recentChanges;

/** CSS classes for a highlight. A collapsed node is represented by the card that shows it. */
export class HighlightStyles {
  readonly selected: string | null;
  readonly only: ReadonlySet<string> | null;
  private readonly hovered: string | null;
  private readonly related: ReadonlySet<string>;
  private readonly added = new Set<string>();
  private readonly changed = new Set<string>();

  constructor(highlight: Highlight, visibleIdOf: Map<string, string>) {
    const visibleIds = (ids: Iterable<string>): Set<string> => new Set([...ids].flatMap((id) => visibleIdOf.get(id) ?? []));
    this.selected = visibleIdOf.get(highlight.selected ?? "") ?? null;
    this.hovered = visibleIdOf.get(highlight.hovered ?? "") ?? null;
    this.related = visibleIds(highlight.related);
    this.only = highlight.only && visibleIds(highlight.only);
    for (const [id, kind] of highlight.recentChanges) {
      const card = visibleIdOf.get(id);
      if (card) (kind === "added" ? this.added : this.changed).add(card);
    }
  }

  isFaded(id: string): boolean {
    return this.only !== null && !this.only.has(id) && id !== this.selected;
  }

  applyToCard(id: string, group: SVGGElement): void {
    setClass(group, "selected", id === this.selected);
    setClass(group, "pointed", id === this.hovered);
    setClass(group, "lit", this.related.has(id));
    setClass(group, "faded", this.isFaded(id));
    setClass(group, "added", this.added.has(id));
    setClass(group, "changed", this.changed.has(id) && !this.added.has(id));
    group.setAttribute("aria-selected", String(id === this.selected));
  }

  applyToLink({ line, label }: LinkElements, { from, to }: LinkRoute): void {
    const isActive = [this.selected, this.hovered].some((id) => id === from || id === to);
    const isFaded = this.only !== null && !isActive && !(this.only.has(from) && this.only.has(to));
    for (const part of label ? [line, label] : [line]) {
      setClass(part, "hot", isActive);
      setClass(part, "faded", isFaded);
    }
  }
}

const setClass = (part: Element, name: string, isSet: boolean): void => void part.classList.toggle(name, isSet);
