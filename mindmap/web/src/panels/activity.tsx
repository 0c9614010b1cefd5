// Activity log: the list in the side panel, and the bar below the map.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Mindmap } from "../api/types";
import { type EntryText, type LogEntry, type LogGroup, describeEntry, groupEntries, hasSeveralAuthors } from "../model/activity";
import { showLogEntry, stepThroughLog } from "../state/actions";
import { app, getRelations, useSelector } from "../state/app";
import { NodeButton, NodeIcon, Time, ToolButton, ToolIcon } from "./widgets";

// ---- list, newest first. A burst of entries is a group that opens to its entries or nodes.

export function ActivityLog() {
  const map = useSelector(app, (state) => state.map)!;
  return <LogEntries map={map} entries={map.activityLog.map((entry, index) => ({ entry, index }))} />;
}

/** List of log entries. `about`: id of the node whose name the entries do not repeat. */
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

/** Burst that opens to its entries, or single entry that opens to its nodes. */
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

const EntryWords = ({ text: { kind, verb, subject, detail } }: { text: EntryText }) => (
  <span class="entry-words">
    {verb} {kind === "note" ? subject : <strong>{subject}</strong>} {detail && <span>{detail}</span>}
  </span>
);

// Icons by the kind of an entry: of tools, and of node types.
const TOOLS: Record<string, string> = { add: "plus", move: "right", remove: "minus", change: "pencil", link: "link", sync: "sync" };
const TYPES: Record<string, string> = { create: "root", file: "file", ask: "hypothesis", comment: "note", note: "note" };

function EntryIcon({ text: { kind, status } }: { text: EntryText }) {
  if (kind === "status") return <NodeIcon type="task" status={status} />;
  return TYPES[kind] ? <NodeIcon type={TYPES[kind]} status={null} /> : <ToolIcon name={TOOLS[kind]!} />;
}

// ---- bar

/** Bar that steps through the log. The map keeps its current state. */
export function LogBar() {
  const map = useSelector(app, (state) => state.map)!;
  const logIndex = useSelector(app, (state) => state.logIndex);
  const isFollowing = useSelector(app, (state) => state.isFollowing);
  const entry = map.activityLog[logIndex ?? 0];
  const last = map.activityLog.length - 1;
  if (!entry) return null;
  const text = describeEntry(entry);
  return (
    <footer class={`log-bar${logIndex === null ? "" : " stepping"}`} aria-label="Activity log" role="group">
      <ToolButton icon="left" label="Older entry of the log" keys="[" disabled={logIndex === last} onClick={() => stepThroughLog(1)} />
      <input
        type="range"
        min={0}
        max={last + 1}
        value={logIndex === null ? last + 1 : last - logIndex}
        aria-label="Position in the activity log"
        aria-valuetext={logIndex === null ? "No entry selected" : entry.message}
        onInput={(event) => {
          const value = Number(event.currentTarget.value);
          showLogEntry(value > last ? null : last - value);
        }}
      />
      <ToolButton icon="right" label="Newer entry of the log" keys="]" disabled={logIndex === null} onClick={() => stepThroughLog(-1)} />
      <button type="button" class="current-entry" title={entry.message} onClick={() => showLogEntry(logIndex ?? 0)}>
        <EntryIcon text={text} />
        <EntryWords text={text} />
        <span class="current-entry-time">
          {logIndex !== null && `${logIndex + 1} of ${last + 1}, `}
          <Time at={entry.timestamp} />
        </span>
      </button>
      {logIndex !== null && <ToolButton icon="close" label="Leave the log" onClick={() => showLogEntry(null)} />}
      <ToolButton
        icon="follow"
        label="Follow the agent: select what it changes"
        keys="Shift+F"
        pressed={isFollowing}
        text="Follow the agent"
        onClick={() => app.set({ isFollowing: !isFollowing })}
      />
    </footer>
  );
}
