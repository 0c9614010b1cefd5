// Header with title, connection state, search, views and tools.

import { escapeHiddenCharacters } from "../api/client";
import { computeProgress } from "../model/progress";
import { ROOT } from "../model/vocabulary";
import { showView } from "../state/actions";
import { type Theme, type View, app, getCurrentView, useSelector, VIEWS } from "../state/app";
import { getNextTheme, switchTheme } from "../state/storage";
import { ExportMenu } from "./export";
import { Search } from "./search";
import { Menu, ProgressBar, ToolButton } from "./widgets";

const VIEW_NAMES: Record<View, string> = { both: "Side by side", map: "Whole map", plan: "Plan", model: "Model" };
const THEME_ICON: Record<Theme, string> = { system: "system", light: "sun", dark: "moon" };

export function Header() {
  const map = useSelector(app, (state) => state.map);
  const isPhone = useSelector(app, (state) => state.isPhone);
  return (
    <header class="top">
      <a class="home" href="#/" title="All sessions (h)" aria-label="mindmap, all sessions">
        <img src="/logo.png" alt="" width="24" height="24" />
        <span class="home-name">mindmap</span>
      </a>
      {map && <Title />}
      <Connection />
      <span class="spacer" />
      {map && !isPhone && <Search />}
      {map && !isPhone && <ViewSwitch />}
      {map && <PanelButton />}
      {isPhone ? (
        <Menu icon="more" label="More">{() => <Tools />}</Menu>
      ) : (
        <Tools />
      )}
    </header>
  );
}

/** Tools that a phone shows in a menu, with the views of the map. */
function Tools() {
  const map = useSelector(app, (state) => state.map);
  const isPhone = useSelector(app, (state) => state.isPhone);
  return (
    <>
      {map && isPhone && <ViewSwitch />}
      {map && <ExportMenu />}
      <ThemeSwitch />
      <ToolButton icon="help" label="Keyboard shortcuts and legend" keys="?" onClick={() => app.set({ dialog: "help" })} />
    </>
  );
}

function Title() {
  const map = useSelector(app, (state) => state.map)!;
  const { done, total } = computeProgress(map).get(ROOT)!;
  return (
    <div class="title">
      <h1 title={map.workspacePath ? `${map.title} · ${escapeHiddenCharacters(map.workspacePath)}` : map.title}>{map.title}</h1>
      {total > 0 && (
        <span class="title-progress">
          <ProgressBar done={done} total={total} />
          <span>
            {done.toLocaleString()}/{total.toLocaleString()}
          </span>
        </span>
      )}
    </div>
  );
}

function Connection() {
  const connection = useSelector(app, (state) => state.connection);
  const text = { live: "Live", connecting: "Connecting", offline: "Offline" }[connection];
  const hint = {
    live: "Changes appear as they are written.",
    connecting: "Connecting to the viewer.",
    offline: "The viewer does not answer, so this page may be out of date. Run `mindmap viewer`; the page then reconnects.",
  }[connection];
  return (
    <span class={`connection ${connection}`} role="status" title={hint}>
      <span class="dot" aria-hidden="true" />
      <span class="connection-text">{text}</span>
    </span>
  );
}

function ViewSwitch() {
  const view = useSelector(app, getCurrentView);
  return (
    <div class="segments" role="group" aria-label="View">
      {VIEWS.map((name, index) => (
        <button
          key={name}
          type="button"
          aria-pressed={view === name}
          aria-keyshortcuts={String(index + 1)}
          title={`${VIEW_NAMES[name]} (${index + 1})`}
          onClick={() => showView(name)}
        >
          {VIEW_NAMES[name]}
        </button>
      ))}
    </div>
  );
}

function PanelButton() {
  const isPanelOpen = useSelector(app, (state) => state.isPanelOpen);
  return <ToolButton icon="panel" label="Side panel" keys="\" pressed={isPanelOpen} onClick={() => app.set({ isPanelOpen: !isPanelOpen })} />;
}

function ThemeSwitch() {
  const theme = useSelector(app, (state) => state.theme);
  return (
    <ToolButton icon={THEME_ICON[theme]} label={`Theme: ${theme}. Switch to ${getNextTheme()}`} keys="t" onClick={switchTheme} />
  );
}
