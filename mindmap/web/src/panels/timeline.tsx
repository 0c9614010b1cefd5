// The activity line: back and forth through the log, each step lighting up what it names.

import type { Mindmap } from "../api/types";
import { named } from "../model/named";
import { app, crossingsOf } from "../state/app";
import { select, stepBy, stepTo } from "../state/actions";
import { useChosen } from "../state/store";
import { Tool } from "./icon";
import { Time } from "./time";

export function Timeline() {
  const map = useChosen(app, (state) => state.map)!;
  const step = useChosen(app, (state) => state.step);
  const follow = useChosen(app, (state) => state.follow);
  const entry = map.activityLog[step ?? 0];
  const last = map.activityLog.length - 1;
  if (!entry) return null;
  const live = step === null;
  return (
    <footer class={`timeline${live ? "" : " back"}`} aria-label="Activity line" role="group">
      <Tool icon="left" label="Step back in the log" keys="[" disabled={step === last} onClick={() => stepBy(1)} />
      <input
        type="range"
        min={0}
        max={last + 1}
        value={live ? last + 1 : last - step}
        aria-label="Place in the activity log"
        aria-valuetext={live ? "Live" : entry.message}
        onInput={(event) => {
          const value = Number(event.currentTarget.value);
          stepTo(value > last ? null : last - value);
        }}
      />
      <Tool icon="right" label="Step forward in the log" keys="]" disabled={live} onClick={() => (step === 0 ? stepTo(null) : stepBy(-1))} />
      <button type="button" class="told" title={entry.message} onClick={() => reveal(map, step ?? 0)}>
        <span class="told-message">{entry.message}</span>
        <span class="told-when">
          {!live && `${step + 1} of ${last + 1}, `}
          <Time at={entry.timestamp} />
        </span>
      </button>
      {!live && (
        <button type="button" class="button small" onClick={() => stepTo(null)}>
          Back to live
        </button>
      )}
      <Tool icon="follow" label="Follow what agents do" keys="Shift+F" pressed={follow} text="Follow" onClick={() => app.set({ follow: !follow })} />
    </footer>
  );
}

function reveal(map: Mindmap, step: number): void {
  const [first] = named(map, crossingsOf(map), map.activityLog[step]!);
  const before = app.get().step;
  if (first) select(first);
  app.set({ step: before });
}
