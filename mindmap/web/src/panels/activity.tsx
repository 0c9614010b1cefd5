// Activity log, newest first.

import type { Activity, Mindmap } from "../api/types";
import { findMentions } from "../model/mentions";
import { app, getRelations } from "../state/app";
import { select, stepTo } from "../state/actions";
import { useSelector } from "../state/store";
import { Time } from "./time";

export interface LogEntry {
  entry: Activity;
  step: number;
}

export function ActivityLog() {
  const map = useSelector(app, (state) => state.map)!;
  return <LogEntries map={map} entries={map.activityLog.map((entry, step) => ({ entry, step }))} />;
}

export function LogEntries({ map, entries }: { map: Mindmap; entries: LogEntry[] }) {
  const step = useSelector(app, (state) => state.step);
  return (
    <ol class="entries">
      {entries.map((entry) => (
        <li key={`${entry.entry.timestamp} ${map.activityLog.length - entry.step}`}>
          <button type="button" aria-current={step === entry.step ? "step" : undefined} onClick={() => goToEntry(map, entry)}>
            <span class="entry-message">{entry.entry.message}</span>
            <Time at={entry.entry.timestamp} />
          </button>
        </li>
      ))}
    </ol>
  );
}

/** Highlights the nodes that an entry mentions and selects the first. */
function goToEntry(map: Mindmap, { entry, step }: LogEntry): void {
  const { tab } = app.get();
  stepTo(step);
  const [firstId] = findMentions(map, getRelations(map), entry);
  if (firstId) select(firstId);
  app.set({ tab, step });
}
