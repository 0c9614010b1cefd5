// Activity log, newest first. Bursts of entries are groups that open to their entries and nodes.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { type EntryText, type LogEntry, type LogGroup, groupEntries, hasSeveralAuthors } from "../model/activity";
import { app, getRelations } from "../state/app";
import { stepTo } from "../state/actions";
import { useSelector } from "../state/store";
import { NodeIcon, ToolIcon } from "./icon";
import { NodeButton } from "./node";
import { Time } from "./time";

export function ActivityLog() {
  const map = useSelector(app, (state) => state.map)!;
  return <LogEntries map={map} entries={map.activityLog.map((entry, step) => ({ entry, step }))} />;
}

/** List of entries; in the list about a node, its name is not repeated. */
export function LogEntries({ map, entries, about }: { map: Mindmap; entries: LogEntry[]; about?: string }) {
  const list = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => list.current!.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), []);
  const groups = groupEntries(map, getRelations(map), entries);
  const keys = createKeys(groups);
  return (
    <ol ref={list} class="entries">
      {groups.map((group, index) => (
        <li key={keys[index]}>
          {group.entries.length > 1 || group.nodes.length > 1 ? <Group map={map} group={group} about={about} /> : <Entry map={map} group={group} about={about} />}
        </li>
      ))}
    </ol>
  );
}

/** Returns a key of each group that newer entries do not change: the time of its oldest entry, and a number for equal times. */
function createKeys(groups: LogGroup[]): string[] {
  const counts = new Map<string, number>();
  const keys = groups.map((_, index) => {
    const { timestamp } = groups.at(-1 - index)!.entries.at(-1)!.entry;
    counts.set(timestamp, (counts.get(timestamp) ?? 0) + 1);
    return `${timestamp} ${counts.get(timestamp)!}`;
  });
  return keys.reverse();
}

interface GroupProps {
  map: Mindmap;
  group: LogGroup;
  about: string | undefined;
}

/** Entry that selects its node. */
function Entry({ map, group, about }: GroupProps) {
  const { step } = group.entries[0]!;
  const isCurrent = useSelector(app, (state) => state.step === step);
  return (
    <button type="button" class="entry" aria-current={isCurrent ? "step" : undefined} onClick={() => stepTo(step)}>
      <Summary map={map} group={group} about={about} />
    </button>
  );
}

function Group({ map, group, about }: GroupProps) {
  const { entries, nodes } = group;
  return (
    <details>
      <summary class="entry">
        <Summary map={map} group={group} about={about} />
        <ToolIcon name="right" />
      </summary>
      {entries.length > 1 ? (
        <ol class="entries">
          {entries.map((entry) => (
            <li key={entry.step}>
              <Entry map={map} group={groupEntries(map, getRelations(map), [entry])[0]!} about={about} />
            </li>
          ))}
        </ol>
      ) : (
        <ul class="nodes">
          {nodes.map((id) => (
            <li key={id}>
              <NodeButton node={map.nodes[id]!} />
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}

function Summary({ map, group, about }: GroupProps) {
  const { entry } = group.entries[0]!;
  const node = group.nodes.length === 1 && group.nodes[0] !== about ? map.nodes[group.nodes[0]!]! : null;
  const author = hasSeveralAuthors(map.activityLog) && entry.client;
  const isNamed = node && [group.subject, group.detail].some((text) => text.includes(node.label));
  return (
    <>
      <EntryIcon text={group} />
      <span>
        <EntryWords text={group} />
        <span class="entry-facts">
          {node && !isNamed && <span>{node.label}</span>}
          {author && <span>{author}</span>}
          <Time at={entry.timestamp} />
        </span>
      </span>
    </>
  );
}

export const EntryWords = ({ text: { kind, verb, subject, detail } }: { text: EntryText }) => (
  <span class="entry-words">
    {verb} {kind === "note" ? subject : <strong>{subject}</strong>} {detail && <span>{detail}</span>}
  </span>
);

const TOOLS: Record<string, string> = { add: "plus", move: "right", remove: "minus", change: "pencil", link: "link", sync: "sync" };
const TYPES: Record<string, string> = { create: "root", file: "file", ask: "hypothesis", comment: "note", note: "note" };

export function EntryIcon({ text: { kind, status } }: { text: EntryText }) {
  if (kind === "status") return <NodeIcon type="task" status={status} />;
  return TYPES[kind] ? <NodeIcon type={TYPES[kind]} status={null} /> : <ToolIcon name={TOOLS[kind]!} />;
}
