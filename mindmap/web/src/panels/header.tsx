// The bar on top: where one is, how it stands, and what can be done.

import { app, progressOf, viewOf, type Theme } from "../state/app";
import { setTheme, show, sync } from "../state/actions";
import { VIEWS, type View } from "../state/route";
import { useChosen } from "../state/store";
import { ROOT } from "../model/vocabulary";
import { ExportMenu } from "./exporting";
import { Bar, Tool } from "./icon";
import { Search } from "./search";

const VIEW_NAMES: Record<View, string> = { both: "Side by side", map: "Whole map", plan: "Plan", model: "Model" };
const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const THEME_ICON: Record<Theme, string> = { system: "system", light: "sun", dark: "moon" };

export function Header() {
  const map = useChosen(app, (state) => state.map);
  return (
    <header class="top">
      <a class="home" href="#/" title="All sessions (h)" aria-label="mindmap, all sessions">
        <img src="/logo.png" alt="" width="24" height="24" />
        <span class="home-name">mindmap</span>
      </a>
      {map && <Title />}
      <Connection />
      <span class="spring" />
      {map && <Search />}
      {map && <Views />}
      {map && <MapTools />}
      <ThemeSwitch />
      <Tool icon="help" label="Keys and legend" keys="?" onClick={() => app.set({ dialog: "help" })} />
    </header>
  );
}

function Title() {
  const map = useChosen(app, (state) => state.map)!;
  const { done, total } = progressOf(map).get(ROOT)!;
  return (
    <div class="title">
      <h1 title={map.workspacePath ? `${map.title} · ${map.workspacePath}` : map.title}>{map.title}</h1>
      {total > 0 && (
        <span class="title-progress">
          <Bar done={done} total={total} />
          <span>
            {done.toLocaleString()}/{total.toLocaleString()}
          </span>
        </span>
      )}
    </div>
  );
}

function Connection() {
  const connection = useChosen(app, (state) => state.connection);
  const text = { live: "Live", connecting: "Connecting", offline: "Offline" }[connection];
  const hint = {
    live: "Changes show up as they are written.",
    connecting: "Reaching the viewer.",
    offline: "The viewer does not answer. What is shown may be old; it comes back by itself when `mindmap viewer` runs.",
  }[connection];
  return (
    <span class={`connection ${connection}`} role="status" title={hint}>
      <span class="dot" aria-hidden="true" />
      {text}
    </span>
  );
}

function Views() {
  const view = useChosen(app, viewOf);
  return (
    <div class="segments" role="group" aria-label="View">
      {VIEWS.map((name, place) => (
        <button
          key={name}
          type="button"
          aria-pressed={view === name}
          aria-keyshortcuts={String(place + 1)}
          title={`${VIEW_NAMES[name]} (${place + 1})`}
          onClick={() => show(name)}
        >
          {VIEW_NAMES[name]}
        </button>
      ))}
    </div>
  );
}

function MapTools() {
  const syncing = useChosen(app, (state) => state.syncing);
  const workspace = useChosen(app, (state) => state.map?.workspacePath);
  const panel = useChosen(app, (state) => state.panel);
  const label = workspace ? "Attach what git says has changed" : "Git sync needs a map with a workspace";
  return (
    <>
      <Tool icon="sync" label={syncing ? "Syncing with git" : label} keys="s" text="Sync" disabled={syncing || !workspace} onClick={() => void sync()} />
      <ExportMenu />
      <Tool icon="panel" label="Side panel" keys="\" pressed={panel} onClick={() => app.set({ panel: !panel })} />
    </>
  );
}

function ThemeSwitch() {
  const theme = useChosen(app, (state) => state.theme);
  return (
    <Tool icon={THEME_ICON[theme]} label={`Theme: ${theme}. Switch to ${NEXT_THEME[theme]}`} keys="t" onClick={() => nextTheme()} />
  );
}

export const nextTheme = (): void => setTheme(NEXT_THEME[app.get().theme]);
