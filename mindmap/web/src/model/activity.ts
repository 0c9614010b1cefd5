// The activity log: its entries in words, groups of similar entries in quick succession (bursts), and the nodes that an
// entry mentions.

import type { Activity, Mindmap } from "../api/types";
import { type Relations, addToGroup, findNodesWithFile } from "./relations";
import { isTask, memoizeByObject } from "./tree";
import { ACTIONS, getLabel, getTypeName, TYPES } from "./vocabulary";

type EntryKind = "create" | "add" | "status" | "change" | "move" | "remove" | "link" | "file" | "sync" | "ask" | "comment" | "note";

/** Entry in words, such as "Added" "Lexer" "under Parser". The page emphasizes the subject; for a note it is the message. */
export interface EntryText {
  kind: EntryKind;
  verb: string;
  subject: string;
  detail: string;
  /** The new status of a task; empty for other kinds. */
  status: string;
  /** Number of nodes or links that the entry is about. */
  count: number;
}

/** Entry with its index in the log, 0 the newest. */
export interface LogEntry {
  entry: Activity;
  index: number;
}

/** A burst of entries of the same kind, newest first, with its description in words. Most groups have a single entry. */
export interface LogGroup extends EntryText {
  /** Unique key that newer entries do not change: the time of the oldest entry, and a number. */
  key: string;
  entries: LogEntry[];
  /** Ids of the entries' nodes; for an entry without a node, of the nodes that it mentions. Each id occurs once. */
  nodes: string[];
}

// The log quotes labels as Python string literals, and truncates long ones with an ellipsis.
const LABEL = String.raw`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`;
const SUBJECT = String.raw`${LABEL}|[\d,]+ nodes?`;
const QUOTED_LABELS = new RegExp(LABEL, "gu");

// Patterns of the messages that the server writes into the log.
const CREATED_MAP = new RegExp(`^Created (${LABEL})$`, "u");
const ADDED_OR_MOVED_NODES = new RegExp(`^(Added|Moved) (${SUBJECT}) under (${LABEL})$`, "u");
const REMOVED_NODES = new RegExp(String.raw`^Removed (${SUBJECT})(?: \((.*)\))?$`, "u");
const UPDATED_NODES = /^Updated ([\d,]+ nodes?)$/u;
const NODE_CHANGE = String.raw`renamed to (?:${LABEL})|[\w ]+ -> \w+|reason removed`;
// "Lexer: renamed to 'Scanner', planned -> completed, reason: tests pass": a label, then changes, a reason, or both.
const CHANGES_OF_NODE = new RegExp(`^(.*?): ((?:${NODE_CHANGE})(?:, (?:${NODE_CHANGE}))*)?(?:(?:, |(?<=: ))reason: (.*))?$`, "su");
const NEW_LINK = new RegExp(`^Linked (${LABEL}) -> (${LABEL})(?:: (.*))?$`, "u");
// "Linked 4 pairs, Removed 1 link" or "Removed 2 links".
const LINK_COUNTS = /^(Linked|Removed) ([\d,]+ (?:pairs?|links?).*)$/u;
const FILE_TOUCH = /^(Read|Create|Modify|Delete|Rename) (.*?)(?:: (.*))?$/su;
const DETECTED_FILES = /^(Git sync|Auto-detected)[: ]+(.*)$/su;
const QUESTION = /^Asked the user: (.*)$/su;
const ANSWER = new RegExp(`^User answered (?:${LABEL}): (.*)$`, "su");
const COMMENT = new RegExp(`^User commented on (${LABEL}): (.*)$`, "su");

const STATUS_VERBS: Record<string, string> = { planned: "Planned", in_progress: "Started", completed: "Completed", blocked: "Blocked" };

/** Returns an entry in words. An entry of an unknown form is a note. */
export function describeEntry({ message, nodeId, file, client }: Activity): EntryText {
  const describe = (kind: EntryKind, verb: string, subject: string, detail = "", count = 1): EntryText => ({ kind, verb, subject, detail, status: "", count });
  let match: RegExpExecArray | null;
  if ((match = ADDED_OR_MOVED_NODES.exec(message))) {
    const [, verb, subject, parent] = match as unknown as [string, string, string, string];
    const kind = verb === "Added" ? "add" : "move";
    return isQuoted(subject) ? describe(kind, verb, unquote(subject), `under ${unquote(parent)}`) : describe(kind, `${verb} ${subject} under`, unquote(parent), "", parseCount(subject));
  }
  if ((match = REMOVED_NODES.exec(message))) return describe("remove", "Removed", unquote(match[1]!), match[2], parseCount(match[1]!));
  if ((match = NEW_LINK.exec(message))) return describe("link", "Linked", `${unquote(match[1]!)} → ${unquote(match[2]!)}`, match[3]);
  if ((match = LINK_COUNTS.exec(message))) return describe("link", match[1]!, match[2]!, "", parseCount(match[2]!));
  if ((match = UPDATED_NODES.exec(message))) return describe("change", "Changed", match[1]!, "", parseCount(match[1]!));
  if ((match = CREATED_MAP.exec(message))) return describe("create", "Created", unquote(match[1]!));
  if ((match = DETECTED_FILES.exec(message))) return describe("sync", match[1]!, match[2]!);
  if ((match = QUESTION.exec(message))) return describe("ask", "Asked you:", match[1]!);
  // The user's entries have no client. A note of an agent, which may begin with the same words, has one.
  if (!client && (match = ANSWER.exec(message))) return describe("comment", "You answered:", match[1]!);
  if (!client && (match = COMMENT.exec(message))) return describe("comment", "You commented on", unquote(match[1]!), match[2]);
  if (file && (match = FILE_TOUCH.exec(message))) return describe("file", getLabel(ACTIONS, match[1]!.toLowerCase()), match[2]!, match[3]);
  return (nodeId && describeChange(message)) || describe("note", "", message);
}

/** Describes an entry such as "Lexer: planned -> completed"; returns null for an entry of another form. */
function describeChange(message: string): EntryText | null {
  const [, subject = "", changes = "", reason = ""] = CHANGES_OF_NODE.exec(message) ?? [];
  const details: string[] = [];
  let status = "";
  for (const [change] of changes.matchAll(new RegExp(NODE_CHANGE, "gu"))) {
    const [from, to] = change.split(" -> ") as [string, string?];
    if (change.startsWith("renamed to ")) details.push(`renamed to ${unquote(change.slice("renamed to ".length))}`);
    else if (to === undefined) details.push(change);
    else if (to in STATUS_VERBS) status = to;
    else if (to in TYPES) details.push(`${getTypeName(from.trim())} → ${getTypeName(to)}`);
  }
  if (reason) details.push(reason);
  if (!status && !details.length) return null;
  return { kind: status ? "status" : "change", verb: STATUS_VERBS[status] ?? "Changed", subject, detail: details.join(", "), status, count: 1 };
}

const isQuoted = (text: string): boolean => /^['"]/u.test(text);
/** Returns the number in a text such as "1,200 nodes"; 1 for a quoted label. */
const parseCount = (subject: string): number => (isQuoted(subject) ? 1 : Number(/^[\d,]+/u.exec(subject)?.[0].replace(/,/gu, "") ?? 1));
const unquote = (text: string): string => (isQuoted(text) ? text.slice(1, -1).replace(/\\(.)/gu, "$1") : text);

// Maximum time between an entry of a burst and the next one.
const BURST_MS = 120_000;

/** Groups entries of a log, newest first, into bursts: entries with the same burst key, close in time. */
export function groupEntries(map: Mindmap, relations: Relations, entries: LogEntry[]): LogGroup[] {
  const bursts: { burstKey: string; entries: LogEntry[] }[] = [];
  for (const logEntry of entries) {
    const burstKey = getBurstKey(logEntry.entry);
    const last = bursts.at(-1);
    const isClose = last && Date.parse(last.entries.at(-1)!.entry.timestamp) - Date.parse(logEntry.entry.timestamp) <= BURST_MS;
    if (burstKey && isClose && last.burstKey === burstKey) last.entries.push(logEntry);
    else bursts.push({ burstKey, entries: [logEntry] });
  }
  const keys = createKeys(bursts.map((burst) => burst.entries.at(-1)!.entry.timestamp));
  return bursts.map((burst, index) => {
    const nodes = [...new Set(burst.entries.flatMap(({ entry }) => (map.nodes[entry.nodeId ?? ""] ? entry.nodeId! : [...findMentions(map, relations, entry)])))];
    return { ...describeBurst(map, burst.entries, nodes), key: keys[index]!, entries: burst.entries, nodes };
  });
}

/** Returns the timestamps, newest first, with numbers that make them unique, counted from the oldest. */
function createKeys(timestamps: string[]): string[] {
  const counts = new Map<string, number>();
  const keys: string[] = [];
  for (const timestamp of [...timestamps].reverse()) {
    const count = (counts.get(timestamp) ?? 0) + 1;
    counts.set(timestamp, count);
    keys.unshift(`${timestamp} ${count}`);
  }
  return keys;
}

/**
 * Returns the key that all entries of a burst have; empty if the entry is never grouped. The key contains the kind, the
 * client, and a trait that depends on the kind, such as the parent or the status.
 */
function getBurstKey(entry: Activity): string {
  const text = describeEntry(entry);
  const trait: Partial<Record<EntryKind, string | undefined>> = {
    add: getParentLabel(text),
    move: getParentLabel(text),
    file: entry.nodeId,
    link: text.verb,
    status: text.status,
    change: "",
    remove: "",
    sync: "",
  };
  return text.kind in trait ? [text.kind, entry.client, trait[text.kind]].join(" ") : "";
}

/** Returns the label of the parent under which an entry added or moved nodes: its detail, or for several nodes its subject. */
const getParentLabel = ({ subject, detail }: EntryText): string => detail.replace(/^under /u, "") || subject;

/** Describes all entries of a burst in words. `nodes`: as in `LogGroup`. */
function describeBurst(map: Mindmap, entries: LogEntry[], nodes: string[]): EntryText {
  const text = describeEntry(entries[0]!.entry);
  const count = entries.reduce((sum, { entry }) => sum + describeEntry(entry).count, 0);
  const mentionedNodes = nodes.flatMap((id) => map.nodes[id] ?? []);
  const noun = (text.kind === "status" || (mentionedNodes.length > 0 && mentionedNodes.every(isTask))) && text.kind !== "remove" ? "tasks" : "nodes";
  if (text.kind === "add" || text.kind === "move") {
    return count === 1 ? text : { ...text, verb: `${text.verb.split(" ")[0]!} ${count.toLocaleString()} ${noun} under`, subject: getParentLabel(text), detail: "" };
  }
  if (entries.length === 1) return text;
  if (text.kind === "sync") return { ...text, detail: `and ${entries.length - 1} more` };
  if (text.kind === "link") return { ...text, subject: `${count.toLocaleString()} pairs`, detail: "" };
  if (text.kind === "file") {
    const isSameAction = entries.every(({ entry }) => describeEntry(entry).verb === text.verb);
    const files = new Set(entries.map(({ entry }) => entry.file)).size;
    return { ...text, verb: isSameAction ? text.verb : "Touched", subject: `${files} ${files === 1 ? "file" : "files"}`, detail: "" };
  }
  return { ...text, subject: `${count.toLocaleString()} ${noun}`, detail: "" };
}

/** Checks whether the entries have more than one MCP client. */
export const hasSeveralAuthors = (entries: Activity[]): boolean => new Set(entries.flatMap(({ client }) => client ?? [])).size > 1;

/**
 * Returns the ids of the nodes that an entry mentions: its node, and the nodes with its file. If there are none, an entry
 * about added, moved or updated nodes mentions the nodes that were last updated at its time. If there are still none, the
 * entry mentions the nodes whose labels its message quotes.
 */
export function findMentions(map: Mindmap, relations: Relations, entry: Activity): Set<string> {
  const ids = new Set<string>();
  if (entry.nodeId && map.nodes[entry.nodeId]) ids.add(entry.nodeId);
  if (entry.file) for (const id of findNodesWithFile(relations, entry.file)) ids.add(id);
  if (!ids.size && (ADDED_OR_MOVED_NODES.test(entry.message) || UPDATED_NODES.test(entry.message))) {
    for (const id of getNodeIndex(map).byUpdateTime.get(entry.timestamp) ?? []) ids.add(id);
  }
  if (ids.size) return ids;
  const labels = [...entry.message.matchAll(QUOTED_LABELS)].map(([label]) => unquote(label));
  return new Set(labels.flatMap((label) => findNodesWithLabel(map, label)));
}

/** Ids of the nodes by label and by time. */
interface NodeIndex {
  /** White space in the labels is replaced by single spaces, as in the log. */
  byLabel: Map<string, string[]>;
  /** By the time of the last update. */
  byUpdateTime: Map<string, string[]>;
}

const getNodeIndex = memoizeByObject((map: Mindmap): NodeIndex => {
  const index: NodeIndex = { byLabel: new Map(), byUpdateTime: new Map() };
  for (const { id, label, updatedAt } of Object.values(map.nodes)) {
    addToGroup(index.byLabel, label.replace(/\s+/gu, " "), id);
    if (updatedAt) addToGroup(index.byUpdateTime, updatedAt, id);
  }
  return index;
});

/** Returns the ids of the nodes with a label; if the log has truncated the label, of the nodes whose labels begin with it. */
function findNodesWithLabel(map: Mindmap, label: string): string[] {
  const { byLabel } = getNodeIndex(map);
  if (!label.endsWith("…")) return byLabel.get(label) ?? [];
  const start = label.slice(0, -1);
  return [...byLabel].flatMap(([other, ids]) => (other.startsWith(start) ? ids : []));
}
