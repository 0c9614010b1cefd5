// Bar below the map that steps through the activity log. The map stays as it is now.

import { describeEntry } from "../model/activity";
import { app } from "../state/app";
import { showLogEntry, stepThroughLog } from "../state/actions";
import { useSelector } from "../state/store";
import { EntryIcon, EntryWords } from "./activity";
import { ToolButton } from "./icon";
import { Time } from "./time";

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
