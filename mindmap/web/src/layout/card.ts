// What a card says, and how much room that takes.

import type { MapNode } from "../api/types";
import type { Progress } from "../model/progress";
import { isTask } from "../model/tree";
import { ROOT, glyphOf, typeName } from "../model/vocabulary";
import { type Measure, shortened, wrapped } from "./text";

export const CARD = { width: 236, icon: 30, pad: 12, line: 18, caption: 14, footer: 20 } as const;
const LINES = 3;
const FILES_WIDTH = 118;

export interface Card {
  caption: string;
  lines: string[];
  /** Files and what was done in them, such as `2 files  + ~`; empty without files. */
  files: string;
  /** Of the tasks under it; none without any. */
  progress: Progress | null;
  /** How many nodes are folded away under it. */
  hidden: number;
  foldable: boolean;
  folded: boolean;
  width: number;
  height: number;
}

export interface Fonts {
  label: Measure;
  bold: Measure;
  small: Measure;
}

export function cardOf(node: MapNode, under: Progress | undefined, hidden: number, foldable: boolean, fonts: Fonts): Card {
  const caption = node.type === "task" || node.id === ROOT ? "" : typeName(node.type);
  const room = CARD.width - CARD.pad * 2 - CARD.icon;
  const lines = wrapped(node.label, room, LINES, node.type === "plan" || node.id === ROOT ? fonts.bold : fonts.label);
  const files = shortened(filesOf(node), FILES_WIDTH, fonts.small);
  const progress = under?.total ? under : null;
  const rows = CARD.line * lines.length + (caption ? CARD.caption : 0) + (files || progress ? CARD.footer : 0);
  return {
    caption,
    lines,
    files,
    progress,
    hidden,
    foldable,
    folded: foldable && hidden > 0,
    width: CARD.width,
    height: Math.max(CARD.pad * 2 + rows - 2, 40),
  };
}

function filesOf(node: MapNode): string {
  const files = node.files ?? [];
  if (!files.length) return "";
  const kinds = new Set(files.flatMap((touch) => (touch.changes ?? []).map((change) => change.kind)));
  const glyphs = [...kinds].map((kind) => glyphOf(kind)[0]).join(" ");
  return `${files.length} ${files.length === 1 ? "file" : "files"}${glyphs ? `   ${glyphs}` : ""}`;
}

/** What a reader of the screen says of a card. */
export function spoken(node: MapNode, card: Card): string {
  const status = isTask(node) ? (node.status ?? "planned").replace(/_/gu, " ") : "";
  const files = node.files?.length ?? 0;
  const parts = [
    node.id === ROOT ? "Map" : typeName(node.type),
    status,
    card.progress ? `${card.progress.done} of ${card.progress.total} tasks done` : "",
    files ? `${files} ${files === 1 ? "file" : "files"}` : "",
    card.hidden ? `${card.hidden} folded away` : "",
  ];
  return `${node.label}, ${parts.filter(Boolean).join(", ")}`;
}
