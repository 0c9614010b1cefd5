// Entry point of the page.

import { render } from "preact";
import { Page } from "./panels/page";
import { readRoute, refresh, watchServer } from "./state/actions";
import { app } from "./state/app";
import { watchKeys } from "./state/keys";
import { loadTheme, repaint, setTheme, watchTabState } from "./state/storage";
import cardStyle from "./style/cards.css";
import colourStyle from "./style/colours.css";
import frameStyle from "./style/frame.css";
import panelStyle from "./style/panels.css";

// In narrower windows the open side panel leaves no room for the map, so it is closed at first.
const NARROW_WINDOW = "(max-width: 860px)";
const PHONE = "(max-width: 600px)";

function applyStyles(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync([colourStyle, frameStyle, panelStyle, cardStyle].join("\n"));
  document.adoptedStyleSheets = [sheet];
}

function watchWindowWidth(): void {
  const narrowQuery = matchMedia(NARROW_WINDOW);
  const phoneQuery = matchMedia(PHONE);
  const updateNarrow = (): void => app.set({ isNarrow: narrowQuery.matches, isPanelOpen: !narrowQuery.matches });
  const updatePhone = (): void => app.set({ isPhone: phoneQuery.matches });
  for (const [query, update] of [[narrowQuery, updateNarrow], [phoneQuery, updatePhone]] as const) {
    query.addEventListener("change", update);
    update();
  }
}

applyStyles();
setTheme(loadTheme());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
watchWindowWidth();
watchTabState();
readRoute();
if (!app.get().route.map) void refresh(); // readRoute() loads a map, but not the session list
window.addEventListener("hashchange", readRoute);
watchKeys();
watchServer();
render(<Page />, document.body);
