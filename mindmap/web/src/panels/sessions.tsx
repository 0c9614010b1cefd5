// All maps, the one changed last on top.

import type { Summary } from "../api/types";
import { app } from "../state/app";
import { written } from "../state/route";
import { useChosen } from "../state/store";
import { Bar } from "./icon";
import { Empty, Loading, Problem } from "./states";
import { Time } from "./time";

export function Sessions() {
  const sessions = useChosen(app, (state) => state.sessions);
  const failure = useChosen(app, (state) => state.failure);
  const broken = useChosen(app, (state) => state.broken);
  const dataDir = useChosen(app, (state) => state.dataDir);
  if (!sessions) return failure ? <Problem failure={failure} /> : <Loading what="the sessions" />;
  return (
    <main class="sessions">
      <h1 class={sessions.length || broken.length ? undefined : "visually-hidden"}>Sessions</h1>
      {failure && <Problem failure={failure} />}
      {sessions.length === 0 && broken.length === 0 && (
        <Empty title="No map yet">
          <p>
            Agents make maps: connect one with <code>mindmap register</code>, and ask it to plan its work in a mindmap. It
            shows up here as soon as it is written.
          </p>
          {dataDir && (
            <p class="muted">
              Watching <code>{dataDir}</code>
            </p>
          )}
        </Empty>
      )}
      <ul>
        {sessions.map((summary) => (
          <li key={summary.id}>
            <Session summary={summary} />
          </li>
        ))}
      </ul>
      {broken.length > 0 && (
        <section class="broken" aria-labelledby="broken-title">
          <h2 id="broken-title">{broken.length === 1 ? "One file" : `${broken.length} files`} that cannot be shown</h2>
          <ul>
            {broken.map((problem) => (
              <li key={problem.id}>
                <strong>{problem.id}</strong>
                <p>{problem.message}</p>
                {problem.hint && <p class="muted">{problem.hint}</p>}
              </li>
            ))}
          </ul>
        </section>
      )}
    </main>
  );
}

function Session({ summary }: { summary: Summary }) {
  const { id, title, completedTasks: done, totalTasks: total, activeTask, workspacePath } = summary;
  return (
    <a class="session" href={written({ map: id, node: null, view: null })}>
      <span class="session-head">
        <span class="session-title">{title}</span>
        <Time at={summary.updatedAt} />
      </span>
      {activeTask ? (
        <span class="session-active">
          <span class="live-dot" aria-hidden="true" />
          <span class="visually-hidden">In progress: </span>
          {activeTask}
        </span>
      ) : (
        <span class="session-active idle">{total > 0 && done === total ? "All tasks done" : "No task in progress"}</span>
      )}
      <span class="session-foot">
        {total > 0 && (
          <>
            <Bar done={done} total={total} />
            <span>
              {done.toLocaleString()} of {total.toLocaleString()} tasks
            </span>
          </>
        )}
        <span>{counted(summary.nodeCount, "node")}</span>
        <span>{counted(summary.fileCount, "file")}</span>
        {workspacePath && <span class="path">{workspacePath}</span>}
      </span>
    </a>
  );
}

const counted = (count: number, what: string): string => `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
