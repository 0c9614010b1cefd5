// Highlighting of cards and links: selected, hovered, related, faded, added, changed.

import type { LinkRoute } from "../layout/links";
import { type ChangeKind, type NodeChanges, CHANGE_NAMES } from "../model/changes";
import { type LinkElements, createMark } from "./elements";

export interface Highlight {
  selected: string | null;
  hovered: string | null;
  related: ReadonlySet<string>;
  /** Nodes that stay unfaded while all others are faded; null if no node is faded. */
  unfaded: ReadonlySet<string> | null;
  /** Nodes that changed in the last seconds. */
  recentChanges: NodeChanges;
  /** Nodes that changed while the tab was hidden, until they are selected. */
  unseen: NodeChanges;
}

export const NO_HIGHLIGHT: Highlight = { selected: null, hovered: null, related: new Set(), unfaded: null, recentChanges: new Map(), unseen: new Map() };

export const isSameHighlight = (a: Highlight, b: Highlight): boolean =>
  a.selected === b.selected &&
  a.hovered === b.hovered &&
  a.related === b.related &&
  a.unfaded === b.unfaded &&
  a.recentChanges === b.recentChanges &&
  a.unseen === b.unseen;

/** CSS classes and marks of cards and links for a highlight. A card also shows the highlights of nodes that are collapsed under it. */
export class HighlightStyles {
  readonly selected: string | null;
  readonly unfaded: ReadonlySet<string> | null;
  private readonly hovered: string | null;
  private readonly related: ReadonlySet<string>;
  private readonly recentChanges: Map<string, ChangeKind>;
  private readonly unseen: Map<string, ChangeKind>;

  constructor(highlight: Highlight, visibleIdOf: Map<string, string>) {
    const visibleIds = (ids: Iterable<string>): Set<string> => new Set([...ids].flatMap((id) => visibleIdOf.get(id) ?? []));
    this.selected = visibleIdOf.get(highlight.selected ?? "") ?? null;
    this.hovered = visibleIdOf.get(highlight.hovered ?? "") ?? null;
    this.related = visibleIds(highlight.related);
    this.unfaded = highlight.unfaded && visibleIds(highlight.unfaded);
    this.recentChanges = findChangedCards(highlight.recentChanges, visibleIdOf);
    this.unseen = findChangedCards(highlight.unseen, visibleIdOf);
  }

  isFaded(id: string): boolean {
    return this.unfaded !== null && !this.unfaded.has(id) && id !== this.selected;
  }

  applyToCard(id: string, group: SVGGElement): void {
    setClass(group, "selected", id === this.selected);
    setClass(group, "pointed", id === this.hovered);
    setClass(group, "lit", this.related.has(id));
    setClass(group, "faded", this.isFaded(id));
    setClass(group, "added", this.recentChanges.get(id) === "added");
    setClass(group, "changed", this.recentChanges.get(id) === "changed");
    setMark(group, this.unseen.get(id));
    group.setAttribute("aria-selected", String(id === this.selected));
  }

  applyToLink({ line, label }: LinkElements, { from, to }: LinkRoute): void {
    const isActive = [this.selected, this.hovered].some((id) => id === from || id === to);
    const isFaded = this.unfaded !== null && !isActive && !(this.unfaded.has(from) && this.unfaded.has(to));
    for (const element of label ? [line, label] : [line]) {
      setClass(element, "hot", isActive);
      setClass(element, "faded", isFaded);
    }
  }
}

/** Returns the kind of change for each card that shows a changed node; "added" if it shows nodes of both kinds. */
function findChangedCards(changes: NodeChanges, visibleIdOf: Map<string, string>): Map<string, ChangeKind> {
  const cards = new Map<string, ChangeKind>();
  for (const [id, kind] of changes) {
    const card = visibleIdOf.get(id);
    if (card && cards.get(card) !== "added") cards.set(card, kind);
  }
  return cards;
}

/** Marks a card as new or changed, or removes its mark. */
function setMark(group: SVGGElement, kind: ChangeKind | undefined): void {
  const last = group.lastElementChild!;
  const mark = last.classList.contains("unseen") ? last : null;
  if (mark?.textContent === (kind && CHANGE_NAMES[kind])) return;
  mark?.remove();
  if (kind) group.append(createMark(CHANGE_NAMES[kind]));
}

const setClass = (element: Element, name: string, isSet: boolean): void => void element.classList.toggle(name, isSet);
