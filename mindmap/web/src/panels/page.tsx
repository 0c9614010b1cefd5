// The page: sessions, or a map with its panels.

import { useEffect } from "preact/hooks";
import { unanswered } from "../api/client";
import { type App, app, viewOf } from "../state/app";
import { useChosen } from "../state/store";
import { Controls } from "./controls";
import { Header } from "./header";
import { Help } from "./help";
import { Pane, type Part } from "./pane";
import { Sessions } from "./sessions";
import { Side } from "./side";
import { Loading, Problem, Said } from "./states";
import { Timeline } from "./timeline";

export function Page() {
  const at = useChosen(app, (state) => state.route.map);
  const dialog = useChosen(app, (state) => state.dialog);
  const title = useChosen(app, (state) => state.map?.title);
  useEffect(() => {
    document.title = title ? `${title} · mindmap` : "mindmap";
  }, [title]);
  return (
    <>
      <Header />
      {at ? <MapPage /> : <Sessions />}
      <Notice />
      {dialog === "help" && <Help />}
    </>
  );
}

function MapPage() {
  const map = useChosen(app, (state) => state.map);
  const failure = useChosen(app, (state) => state.failure);
  const panel = useChosen(app, (state) => state.panel);
  const offline = useChosen(app, isOffline);
  if (!map) return <main>{failure ? <Problem failure={failure} /> : <Loading what="the map" />}</main>;
  return (
    <main class="map">
      {(failure || offline) && <Stale />}
      <div class="work">
        <Panes />
        {panel && <Side />}
      </div>
      <Timeline />
    </main>
  );
}

const isOffline = (state: App): boolean => state.connection === "offline";

function Panes() {
  const view = useChosen(app, viewOf);
  const parts: Part[] = view === "both" ? ["plan", "model"] : [view];
  return (
    <div class="panes">
      {parts.map((part) => (
        <Pane key={part} part={part} title={parts.length > 1} />
      ))}
      <Controls />
    </div>
  );
}

/** What is shown stays, and it is said why it may be old. */
function Stale() {
  const failure = useChosen(app, (state) => state.failure);
  const { message, hint, status } = failure ?? unanswered();
  const told = status === 404 ? "This map was deleted. What you see is how it was last." : `${message} What you see is how it was last.`;
  return (
    <p class="stale" role="alert">
      <Said text={`${told} ${hint}`} />
    </p>
  );
}

function Notice() {
  const notice = useChosen(app, (state) => state.notice);
  return (
    <div class="notices" role="status" aria-live="polite">
      {notice && <p class={`notice${notice.bad ? " bad" : ""}`}>{notice.text}</p>}
    </div>
  );
}
