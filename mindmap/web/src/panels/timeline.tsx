// Timeline of the activity log.

import type { Mindmap } from "../api/types";
import { findMentions } from "../model/mentions";
import { app, getRelations } from "../state/app";
import { select, stepBy, stepTo } from "../state/actions";
import { useSelector } from "../state/store";
import { ToolButton } from "./icon";
import { Time } from "./time";

export function Timeline() {
  const map = useSelector(app, (state) => state.map)!;
  const step = useSelector(app, (state) => state.step);
  const isFollowing = useSelector(app, (state) => state.isFollowing);
  const entry = map.activityLog[step ?? 0];
  const last = map.activityLog.length - 1;
  if (!entry) return null;
  const isLive = step === null;
  return (
    <footer class={`timeline${isLive ? "" : " back"}`} aria-label="Timeline" role="group">
      <ToolButton icon="left" label="Step back in the log" keys="[" disabled={step === last} onClick={() => stepBy(1)} />
      <input
        type="range"
        min={0}
        max={last + 1}
        value={isLive ? last + 1 : last - step}
        aria-label="Position in the activity log"
        aria-valuetext={isLive ? "Live" : entry.message}
        onInput={(event) => {
          const value = Number(event.currentTarget.value);
          stepTo(value > last ? null : last - value);
        }}
      />
      <ToolButton icon="right" label="Step forward in the log" keys="]" disabled={isLive} onClick={() => (step === 0 ? stepTo(null) : stepBy(-1))} />
      <button type="button" class="current-entry" title={entry.message} onClick={() => selectEntryNode(map, step ?? 0)}>
        <span class="current-entry-message">{entry.message}</span>
        <span class="current-entry-time">
          {!isLive && `${step + 1} of ${last + 1}, `}
          <Time at={entry.timestamp} />
        </span>
      </button>
      {!isLive && (
        <button type="button" class="button small" onClick={() => stepTo(null)}>
          Back to live
        </button>
      )}
      <ToolButton icon="follow" label="Follow what agents do" keys="Shift+F" pressed={isFollowing} text="Follow" onClick={() => app.set({ isFollowing: !isFollowing })} />
    </footer>
  );
}

function selectEntryNode(map: Mindmap, step: number): void {
  const [firstId] = findMentions(map, getRelations(map), map.activityLog[step]!);
  const stepBefore = app.get().step;
  if (firstId) select(firstId);
  app.set({ step: stepBefore });
}
