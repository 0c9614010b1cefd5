// Content and size of a card. Its texts are measured, broken into lines and truncated.

import type { MapNode } from "../api/types";
import { type Progress, listOpenQuestionsOfNode } from "../model/progress";
import { getStatus } from "../model/tree";
import { getGlyphAndLabel, getTypeName, ROOT } from "../model/vocabulary";
import { GRID } from "./geometry";

// Sizes in pixels at scale 1, like all sizes in this folder.
export const CARD_METRICS = { width: 35 * GRID, icon: 30, pad: 12, top: 9, line: 18, caption: 15, footer: 20 } as const;
// The root's title has one line up to this width.
const MAX_ROOT_WIDTH = 62 * GRID;
const MIN_HEIGHT = 36;
// Narrower than the padding on the left, because few lines fill their width.
const RIGHT_MARGIN = 8;
const MAX_LABEL_LINES = 3;
const MAX_REMARK_LINES = 2;
// Maximum width of the text about files where it stands beside progress or a caption.
const MAX_FILES_WIDTH = 88;

export interface Card {
  /** Name of the node's type above the label; empty for plans, tasks and the root. */
  caption: string;
  /** Lines of the label. */
  lines: string[];
  /** Lines of an agent's open question, or of the reason why the task is blocked; empty for other nodes. */
  remark: string[];
  isQuestion: boolean;
  /** Number of files and glyphs of their changes, such as `2 files  + ~`; empty without files. */
  files: string;
  /** True if a row at the bottom shows progress or files. Without this row, files stand beside the caption. */
  hasFooter: boolean;
  /** Progress of the tasks below the node; null without tasks. */
  progress: Progress | null;
  /** Number of nodes that are collapsed under this card. */
  hiddenCount: number;
  /** Number of links to the other pane from the node and from the nodes that are collapsed under it. */
  crossLinkCount: number;
  isCollapsible: boolean;
  isCollapsed: boolean;
  width: number;
  height: number;
}

/** Functions that measure text in the fonts of the cards. */
export interface Fonts {
  label: Measure;
  bold: Measure;
  small: Measure;
}

/** Returns the content of a node's card. `taskProgress`: progress of the tasks below the node. */
export function createCard(node: MapNode, taskProgress: Progress | undefined, hiddenCount: number, crossLinkCount: number, isCollapsible: boolean, fonts: Fonts): Card {
  // A plan has a bold label instead of a caption.
  const caption = node.type === "task" || node.type === "plan" || node.id === ROOT ? "" : getTypeName(node.type);
  const margins = CARD_METRICS.pad + CARD_METRICS.icon + RIGHT_MARGIN;
  const width = node.id === ROOT ? Math.min(MAX_ROOT_WIDTH, Math.max(CARD_METRICS.width, Math.ceil((fonts.bold(node.label) + margins) / GRID) * GRID)) : CARD_METRICS.width;
  const textWidth = width - margins;
  const lines = wrapText(node.label, textWidth, MAX_LABEL_LINES, node.type === "plan" || node.id === ROOT ? fonts.bold : fonts.label);
  const [question] = listOpenQuestionsOfNode(node);
  const remark = wrapText(question ? `Asks you: ${question.text}` : (node.reason ?? ""), textWidth, MAX_REMARK_LINES, fonts.small);
  const progress = taskProgress?.total ? taskProgress : null;
  const files = truncateText(describeFiles(node), progress || caption ? MAX_FILES_WIDTH : textWidth, fonts.small);
  const hasFooter = progress !== null || (files !== "" && !caption);
  const rows = CARD_METRICS.line * lines.length + CARD_METRICS.caption * remark.length + (caption ? CARD_METRICS.caption : 0) + (hasFooter ? CARD_METRICS.footer : 0);
  return {
    caption,
    lines,
    remark,
    isQuestion: question !== undefined,
    files,
    hasFooter,
    progress,
    hiddenCount,
    crossLinkCount,
    isCollapsible,
    isCollapsed: isCollapsible && hiddenCount > 0,
    width,
    height: Math.ceil(Math.max(CARD_METRICS.top * 2 + rows - 2, MIN_HEIGHT) / GRID) * GRID,
  };
}

function describeFiles(node: MapNode): string {
  const files = node.files ?? [];
  if (!files.length) return "";
  const kinds = new Set(files.flatMap((touch) => (touch.changes ?? []).map((change) => change.kind)));
  const glyphs = [...kinds].map((kind) => getGlyphAndLabel(kind)[0]).join(" ");
  return `${files.length} ${files.length === 1 ? "file" : "files"}${glyphs ? `   ${glyphs}` : ""}`;
}

export const describeCrossLinks = (count: number): string => `${count} ${count === 1 ? "link" : "links"} to the other pane`;

/** Returns the text that screen readers announce for a card. */
export function buildAccessibleName(node: MapNode, card: Card): string {
  const status = (getStatus(node) ?? "").replace(/_/gu, " ");
  const files = node.files?.length ?? 0;
  const parts = [
    node.id === ROOT ? "Map" : getTypeName(node.type),
    status + (node.reason ? `: ${node.reason}` : ""),
    card.isQuestion ? "has a question for you" : "",
    card.progress ? `${card.progress.done} of ${card.progress.total} tasks done` : "",
    files ? `${files} ${files === 1 ? "file" : "files"}` : "",
    card.crossLinkCount ? describeCrossLinks(card.crossLinkCount) : "",
    card.hiddenCount ? `${card.hiddenCount} collapsed` : "",
  ];
  return `${node.label}, ${parts.filter(Boolean).join(", ")}`;
}

// ---- texts

// The width of a text is the sum of cached widths of its characters, because measuring 5,000 whole labels took 0.1 s.

/** Function that returns the width of a text in pixels. */
export type Measure = (text: string) => number;

/** Returns a function that measures text in a font. It asks the browser only once for each character. */
export function createMeasure(font: string): Measure {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = font;
  const widths = new Map<string, number>();
  return (text) => {
    let width = 0;
    for (const character of text) {
      let characterWidth = widths.get(character);
      if (characterWidth === undefined) widths.set(character, (characterWidth = context.measureText(character).width));
      width += characterWidth;
    }
    return width;
  };
}

/** Breaks a text into at most `maxLines` lines of a width; a text that does not fit ends with an ellipsis. */
export function wrapText(text: string, width: number, maxLines: number, measure: Measure): string[] {
  const words = text.split(/\s+/u).filter(Boolean);
  const lines: string[] = [];
  let line = "";
  for (let index = 0; index < words.length; index++) {
    const longerLine = line ? `${line} ${words[index]!}` : words[index]!;
    if (measure(longerLine) <= width) {
      line = longerLine;
      continue;
    }
    if (lines.length === maxLines - 1) return [...lines, truncateText([line, ...words.slice(index)].join(" ").trim(), width, measure)];
    if (line) {
      lines.push(line);
      line = "";
    } else {
      const length = findFittingLength(words[index]!, width, measure);
      lines.push(words[index]!.slice(0, length));
      words[index] = words[index]!.slice(length);
    }
    index--; // the word, or the rest of it, begins the next line
  }
  return line ? [...lines, line] : lines;
}

export function truncateText(text: string, width: number, measure: Measure): string {
  if (measure(text) <= width) return text;
  return `${text.slice(0, findFittingLength(text, width - measure("…"), measure)).trimEnd()}…`;
}

/** Returns the length of the longest prefix that fits: at least one character, and never half of a surrogate pair. */
function findFittingLength(text: string, width: number, measure: Measure): number {
  let usedWidth = 0;
  let end = 0;
  for (const character of text) {
    usedWidth += measure(character);
    if (usedWidth > width && end) break;
    end += character.length;
  }
  return end;
}
