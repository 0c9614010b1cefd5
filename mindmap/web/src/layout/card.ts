// Content and size of a card.

import type { MapNode } from "../api/types";
import { type Progress, listOpenQuestionsOfNode } from "../model/progress";
import { getStatus } from "../model/tree";
import { ROOT, getGlyphAndLabel, getTypeName } from "../model/vocabulary";
import { GRID } from "./layout";
import { type Measure, truncateText, wrapText } from "./text";

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
