// Light or dark theme.

import { clearColourCache } from "../render/colours";
import { app, type Theme } from "./app";
import { panes } from "./panes";
import { storeTheme } from "./storage";

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
export const getNextTheme = (): Theme => NEXT_THEME[app.get().theme];
export const switchTheme = (): void => setTheme(getNextTheme());

export function setTheme(theme: Theme): void {
  app.set({ theme });
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  repaint();
  storeTheme(theme);
}

/** Repaints the canvases after a switch between light and dark. */
export function repaint(): void {
  clearColourCache();
  for (const { repaint: repaintPane } of panes.values()) repaintPane();
}
