// Root component: the sessions, or a map with its panels.

import { useEffect } from "preact/hooks";
import { createOfflineError, NO_SUCH_MAP } from "../api/client";
import { markAsSeen, showNextUnseen } from "../state/actions";
import { app, isOutlineShown, useSelector } from "../state/app";
import { LogBar } from "./activity";
import { Header } from "./header";
import { Help } from "./help";
import { ErrorMessage, Loading, Remedy, TextWithCode } from "./messages";
import { Outline } from "./outline";
import { Panes } from "./panes";
import { QuestionBanner } from "./questions";
import { Search } from "./search";
import { Sessions } from "./sessions";
import { SidePanel } from "./side";
import { Time } from "./widgets";

export function Page() {
  const mapId = useSelector(app, (state) => state.route.map);
  const dialog = useSelector(app, (state) => state.dialog);
  const title = useSelector(app, (state) => state.map?.title);
  useEffect(() => {
    document.title = title ? `${title} · mindmap` : "mindmap";
  }, [title]);
  return (
    <>
      <Header />
      {mapId ? <MapPage /> : <Sessions />}
      <Notice />
      {dialog === "help" && <Help />}
    </>
  );
}

function MapPage() {
  const map = useSelector(app, (state) => state.map);
  const failure = useSelector(app, (state) => state.failure);
  const isPanelOpen = useSelector(app, (state) => state.isPanelOpen);
  const isPhone = useSelector(app, (state) => state.isPhone);
  const isOutline = useSelector(app, isOutlineShown);
  const isOffline = useSelector(app, (state) => state.connection === "offline");
  if (!map) return <main>{failure ? <ErrorMessage failure={failure} /> : <Loading noun="the map" />}</main>;
  return (
    <main class="map">
      {(failure || isOffline) && <StaleBanner />}
      <QuestionBanner />
      <UnseenBanner />
      {isPhone && <PhoneTabs />}
      <div class="work">
        {isOutline ? <Outline /> : <Panes />}
        {isPanelOpen && <SidePanel />}
      </div>
      {!isOutline && <LogBar />}
    </main>
  );
}

/** Tabs and search of a phone, whose header has no room for them. */
function PhoneTabs() {
  const phoneTab = useSelector(app, (state) => state.phoneTab);
  return (
    <div class="phone-tabs">
      <div class="segments" role="group" aria-label="Show">
        {(["outline", "map"] as const).map((name) => (
          <button key={name} type="button" aria-pressed={phoneTab === name} onClick={() => app.set({ phoneTab: name })}>
            {name === "outline" ? "Outline" : "Map"}
          </button>
        ))}
      </div>
      <Search />
    </div>
  );
}

/** Banner that explains why the shown map may be out of date. */
function StaleBanner() {
  const failure = useSelector(app, (state) => state.failure);
  const shown = failure ?? createOfflineError();
  return (
    <p class="stale" role="alert">
      <TextWithCode text={shown.code === NO_SUCH_MAP ? "This map was deleted. You see its last state." : `${shown.message} You see the last known state.`} /> <Remedy failure={shown} />
    </p>
  );
}

/** Banner about the nodes that changed while the tab was hidden. */
function UnseenBanner() {
  const unseen = useSelector(app, (state) => state.unseen);
  const unseenSince = useSelector(app, (state) => state.unseenSince);
  if (!unseen.size) return null;
  const added = [...unseen.values()].filter((kind) => kind === "added").length;
  const counts = [added && `${added.toLocaleString()} new`, unseen.size - added && `${(unseen.size - added).toLocaleString()} changed`].filter(Boolean).join(" and ");
  return (
    <div class="banner" role="status">
      <span>
        {counts} since you looked, <Time at={unseenSince} />
      </span>
      <button type="button" class="button small" aria-keyshortcuts="u" onClick={showNextUnseen}>
        Show next
      </button>
      <button type="button" class="link-button" onClick={() => markAsSeen(unseen.keys())}>
        Mark all as seen
      </button>
    </div>
  );
}

function Notice() {
  const notice = useSelector(app, (state) => state.notice);
  return (
    <div class="notices" role="status" aria-live="polite">
      {notice && <p class={`notice${notice.isError ? " bad" : ""}`}>{notice.text}</p>}
    </div>
  );
}
