// List of all maps, most recently changed first.

import { useState } from "preact/hooks";
import { escapeHiddenCharacters } from "../api/client";
import type { SessionSummary } from "../api/types";
import { isDone } from "../model/progress";
import { app, formatRoute, useSelector } from "../state/app";
import { CopyableText, EmptyState, ErrorMessage, Loading } from "./messages";
import { ProgressBar, Time } from "./widgets";

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
          <ConnectAgent />
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

// Clients of `mindmap register`, by name.
const CLIENTS: Record<string, string> = {
  "claude-code": "Claude Code",
  "claude-desktop": "Claude Desktop",
  cursor: "Cursor",
  windsurf: "Windsurf",
  gemini: "Gemini CLI",
  opencode: "opencode",
  codex: "Codex CLI",
  vscode: "VS Code",
  zed: "Zed",
};
const PROMPT = "Plan this work on a mindmap: use the mindmap tools, add the steps and what you learn about the code, and keep their status up to date.";

/** How to get the first map: register the tools with a client, then ask its agent for a map. */
function ConnectAgent() {
  const [client, setClient] = useState("claude-code");
  return (
    <ol class="steps">
      <li>
        <h3>Register the tools with your agent's client</h3>
        <div class="clients" role="group" aria-label="Client">
          {Object.entries(CLIENTS).map(([name, title]) => (
            <button key={name} type="button" aria-pressed={client === name} onClick={() => setClient(name)}>
              {title}
            </button>
          ))}
        </div>
        <CopyableText text={`mindmap register --client ${client} --write`} name="command" />
      </li>
      <li>
        <h3>Start the agent again and ask it for a map</h3>
        <CopyableText text={PROMPT} name="prompt" />
      </li>
      <li>
        <h3>Keep this page open</h3>
        <p class="muted">The map appears here at once.</p>
      </li>
    </ol>
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
        <span class="session-active idle">{isDone({ done, total }) ? "All tasks done" : "No task in progress"}</span>
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
        {workspacePath && <span class="path">{escapeHiddenCharacters(workspacePath)}</span>}
      </span>
    </a>
  );
}

const formatCount = (count: number, noun: string): string => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
