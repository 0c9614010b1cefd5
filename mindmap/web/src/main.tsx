// The page's beginning: styles, state, drawing.

import { render } from "preact";
import { Page } from "./panels/page";
import { readRoute, readTheme, recoloured, refresh, watch } from "./state/actions";
import { app } from "./state/app";
import { watchKeys } from "./state/keys";
import cards from "./style/cards.css";
import colours from "./style/colours.css";
import frame from "./style/frame.css";
import panels from "./style/panels.css";

const NARROW = "(max-width: 860px)";

function dressed(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync([colours, frame, panels, cards].join("\n"));
  document.adoptedStyleSheets = [sheet];
}

function measured(): void {
  const narrow = matchMedia(NARROW);
  const tell = (): void => app.set({ narrow: narrow.matches, panel: !narrow.matches });
  narrow.addEventListener("change", tell);
  tell();
}

dressed();
readTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recoloured);
measured();
readRoute();
if (!app.get().route.map) void refresh();
window.addEventListener("hashchange", readRoute);
watchKeys();
watch();
render(<Page />, document.body);
