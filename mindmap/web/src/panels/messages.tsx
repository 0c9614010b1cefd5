// Loading, empty and error states.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, buildViewerCommand, NO_SUCH_MAP } from "../api/client";
import { notify, refresh } from "../state/actions";
import { app, formatRoute, useSelector } from "../state/app";
import { ToolButton } from "./widgets";

/** Text with `code` in backquotes. */
export const TextWithCode = ({ text }: { text: string }) => <>{text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;

// Maximum number of sessions to offer; the page of all sessions has the others.
const MAX_SESSIONS = 3;

/** What to do after a failure: start the viewer again, open another map, or follow the server's hint. */
export function Remedy({ failure: { status, hint, code } }: { failure: ApiError }) {
  const dataDir = useSelector(app, (state) => state.dataDir);
  const defaultDataDir = useSelector(app, (state) => state.defaultDataDir);
  const sessions = useSelector(app, (state) => state.sessions);
  if (status === 0) return <TextWithCode text={`Run \`${buildViewerCommand(location, { dataDir, defaultDataDir })}\`. This page reconnects by itself.`} />;
  // The hint of an unknown map lists the existing ids; show them as links instead.
  if (code !== NO_SUCH_MAP || !sessions?.length) return <TextWithCode text={hint} />;
  return (
    <>
      Open:{" "}
      {sessions.slice(0, MAX_SESSIONS).map(({ id, title }) => (
        <span key={id}>
          <a href={formatRoute({ map: id, node: null, view: null })}>{title}</a>,{" "}
        </span>
      ))}
      <a href="#/">all sessions</a>
    </>
  );
}

/** Text in a box with a button that copies it. */
export function CopyableText({ text, name }: { text: string; name: string }) {
  const [copiedText, setCopiedText] = useState("");
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setCopiedText(text), () => notify(`The browser does not allow copying. Select the ${name} and copy it.`, true));
  return (
    <p class="copyable">
      <code>{text}</code>
      <ToolButton icon="copy" label={`Copy the ${name}`} text={copiedText === text ? "Copied" : "Copy"} onClick={copy} />
    </p>
  );
}

export const Loading = ({ noun }: { noun: string }) => (
  <div class="state" role="status">
    <span class="spinner" aria-hidden="true" />
    <p>Loading {noun}…</p>
  </div>
);

export const EmptyState = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="state empty">
    <img src="/logo.png" alt="" width="56" height="56" />
    <h2>{title}</h2>
    {children}
  </div>
);

const ERROR_TITLES = { missing: "Map not found", offline: "The viewer is offline", unreadable: "This cannot be shown" };
const ERROR_ICONS = {
  missing: "M7 2.250a4.750 4.750 0 1 1 0 9.500a4.750 4.750 0 1 1 0-9.500zM10.500 10.500l3.500 3.500M5.250 7h3.500",
  offline: "M5 2v3M11 2v3M3.500 5h9v2.500a4.500 4.500 0 0 1-9 0zM8 12v2.500M1.500 14.500l13-13",
  unreadable: "M3.500 1.750h6l3 3v9.500h-9zM9.500 1.750v3h3M6 8l4 4M10 8l-4 4",
};

export function ErrorMessage({ failure }: { failure: ApiError }) {
  const kind = failure.status === 404 ? "missing" : failure.status === 0 ? "offline" : "unreadable";
  return (
    <div class="state error" role="alert">
      <svg class="glyph" viewBox="0 0 16 16" aria-hidden="true">
        <path class="line" d={ERROR_ICONS[kind]} />
      </svg>
      <h2>{ERROR_TITLES[kind]}</h2>
      <p>
        <TextWithCode text={failure.message} />
      </p>
      <p class="muted">
        <Remedy failure={failure} />
      </p>
      <p class="row">
        <button type="button" class="button" onClick={() => void refresh()}>
          Try again
        </button>
        <a class="button" href="#/">
          All sessions
        </a>
      </p>
    </div>
  );
}
