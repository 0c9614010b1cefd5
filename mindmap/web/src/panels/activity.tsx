// Activity log, newest first. Bursts of entries are groups that open to their entries and nodes.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { type EntryText, type LogEntry, type LogGroup, groupEntries, hasSeveralAuthors } from "../model/activity";
import { app, getRelations } from "../state/app";
import { showLogEntry } from "../state/actions";
import { useSelector } from "../state/store";
import { NodeIcon, ToolIcon } from "./icon";
import { NodeButton } from "./node";
import { Time } from "./time";

export function ActivityLog() {
  const map = useSelector(app, (state) => state.map)!;
  return <LogEntries map={map} entries={map.activityLog.map((entry, index) => ({ entry, index }))} />;
}

/** List of entries; in the list about a node, its name is not repeated. */
export function LogEntries({ map, entries, about }: { map: Mindmap; entries: LogEntry[]; about?: string }) {
  const list = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => list.current!.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), []);
  return (
    <ol ref={list} class="entries">
      {groupEntries(map, getRelations(map), entries).map((group) => (
        <li key={group.key}>
          {group.entries.length > 1 || group.nodes.length > 1 ? <Group map={map} group={group} about={about} /> : <Entry map={map} group={group} about={about} />}
        </li>
      ))}
    </ol>
  );
}

interface GroupProps {
  map: Mindmap;
  group: LogGroup;
  about: string | undefined;
}

/** Entry that selects its node. */
function Entry({ map, group, about }: GroupProps) {
  const { index } = group.entries[0]!;
  const isCurrent = useSelector(app, (state) => state.logIndex === index);
  return (
    <button type="button" class="entry" aria-current={isCurrent ? "step" : undefined} onClick={() => showLogEntry(index)}>
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
            <li key={entry.index}>
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

// Icons by the kind of an entry: of tools, and of node types.
const TOOLS: Record<string, string> = { add: "plus", move: "right", remove: "minus", change: "pencil", link: "link", sync: "sync" };
const TYPES: Record<string, string> = { create: "root", file: "file", ask: "hypothesis", comment: "note", note: "note" };

export function EntryIcon({ text: { kind, status } }: { text: EntryText }) {
  if (kind === "status") return <NodeIcon type="task" status={status} />;
  return TYPES[kind] ? <NodeIcon type={TYPES[kind]} status={null} /> : <ToolIcon name={TOOLS[kind]!} />;
}
