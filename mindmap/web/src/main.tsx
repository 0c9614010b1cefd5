// Entry point of the page.

import { render } from "preact";
import { Page } from "./panels/page";
import { readRoute, loadTheme, repaint, refresh, watchServer } from "./state/actions";
import { app } from "./state/app";
import { watchKeys } from "./state/keys";
import cards from "./style/cards.css";
import colours from "./style/colours.css";
import frame from "./style/frame.css";
import panels from "./style/panels.css";

const NARROW_WINDOW = "(max-width: 860px)";

function applyStyles(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync([colours, frame, panels, cards].join("\n"));
  document.adoptedStyleSheets = [sheet];
}

function watchWindowWidth(): void {
  const narrow = matchMedia(NARROW_WINDOW);
  const update = (): void => app.set({ isNarrow: narrow.matches, isPanelOpen: !narrow.matches });
  narrow.addEventListener("change", update);
  update();
}

applyStyles();
loadTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
watchWindowWidth();
readRoute();
if (!app.get().route.map) void refresh();
window.addEventListener("hashchange", readRoute);
watchKeys();
watchServer();
render(<Page />, document.body);
