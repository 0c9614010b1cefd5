// The log: what was done, newest first; an entry leads to what it names.

import type { Activity, Mindmap } from "../api/types";
import { named } from "../model/named";
import { app, crossingsOf } from "../state/app";
import { select, stepTo } from "../state/actions";
import { useChosen } from "../state/store";
import { Time } from "./time";

export interface Entry {
  entry: Activity;
  step: number;
}

export function ActivityLog() {
  const map = useChosen(app, (state) => state.map)!;
  return <Entries map={map} entries={map.activityLog.map((entry, step) => ({ entry, step }))} />;
}

export function Entries({ map, entries }: { map: Mindmap; entries: Entry[] }) {
  const step = useChosen(app, (state) => state.step);
  return (
    <ol class="entries">
      {entries.map((one) => (
        <li key={`${one.entry.timestamp} ${map.activityLog.length - one.step}`}>
          <button type="button" aria-current={step === one.step ? "step" : undefined} onClick={() => jump(map, one)}>
            <span class="entry-message">{one.entry.message}</span>
            <Time at={one.entry.timestamp} />
          </button>
        </li>
      ))}
    </ol>
  );
}

/** Lights up what the entry names, and goes to the first of it. */
function jump(map: Mindmap, { entry, step }: Entry): void {
  const { tab } = app.get();
  stepTo(step);
  const [first] = named(map, crossingsOf(map), entry);
  if (first) select(first);
  app.set({ tab, step });
}
