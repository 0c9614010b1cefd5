// List of all maps, most recently changed first.

import type { SessionSummary } from "../api/types";
import { app } from "../state/app";
import { formatRoute } from "../state/route";
import { useSelector } from "../state/store";
import { ProgressBar } from "./icon";
import { EmptyState, Loading, ErrorMessage } from "./messages";
import { Time } from "./time";

export function Sessions() {
  const sessions = useSelector(app, (state) => state.sessions);
  const failure = useSelector(app, (state) => state.failure);
  const problems = useSelector(app, (state) => state.problems);
  const dataDir = useSelector(app, (state) => state.dataDir);
  if (!sessions) return failure ? <ErrorMessage failure={failure} /> : <Loading noun="the sessions" />;
  return (
    <main class="sessions">
      <h1 class={sessions.length || problems.length ? undefined : "visually-hidden"}>Sessions</h1>
      {failure && <ErrorMessage failure={failure} />}
      {sessions.length === 0 && problems.length === 0 && (
        <EmptyState title="No map yet">
          <p>
            Agents create maps. Connect one with <code>mindmap register</code>, and ask it to plan its work in a mindmap. The
            map appears here at once.
          </p>
          {dataDir && (
            <p class="muted">
              Watching <code>{dataDir}</code>
            </p>
          )}
        </EmptyState>
      )}
      <ul>
        {sessions.map((summary) => (
          <li key={summary.id}>
            <Session summary={summary} />
          </li>
        ))}
      </ul>
      {problems.length > 0 && (
        <section class="problems" aria-labelledby="problems-title">
          <h2 id="problems-title">{formatCount(problems.length, "file")} cannot be shown</h2>
          <ul>
            {problems.map((problem) => (
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

function Session({ summary }: { summary: SessionSummary }) {
  const { id, title, completedTasks: done, totalTasks: total, activeTask, workspacePath } = summary;
  return (
    <a class="session" href={formatRoute({ map: id, node: null, view: null })}>
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
            <ProgressBar done={done} total={total} />
            <span>
              {done.toLocaleString()} of {total.toLocaleString()} tasks
            </span>
          </>
        )}
        <span>{formatCount(summary.nodeCount, "node")}</span>
        <span>{formatCount(summary.fileCount, "file")}</span>
        {workspacePath && <span class="path">{workspacePath}</span>}
      </span>
    </a>
  );
}

const formatCount = (count: number, what: string): string => `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
