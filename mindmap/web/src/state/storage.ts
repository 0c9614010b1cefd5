// Theme, and for each tab and map what the user has not seen or has dismissed; the browser stores both.

import type { ChangeKind } from "../model/changes";
import { clearColourCache } from "../render/canvas";
import { type AppState, type Theme, app } from "./app";
import { panes } from "./panes";

// Key of the theme in the local storage. Another format of a stored value needs another key.
const THEME_KEY = "mindmap-theme";
// Start of a tab's keys in the session storage; the id of the map follows.
const TAB_STATE_PREFIX = "mindmap-tab ";
const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** Part of the state that survives a reload of the page. */
type TabState = Pick<AppState, "unseen" | "unseenSince" | "lastUpdate" | "dismissedQuestions">;

/** Part of the state as JSON in the session storage. `lookedAt` is the stored name of `unseenSince`. */
interface StoredTabState {
  unseen: [string, ChangeKind][];
  lookedAt: string;
  lastUpdate: string;
  dismissedQuestions: string[];
}

const EMPTY_TAB_STATE: StoredTabState = { unseen: [], lookedAt: "", lastUpdate: "", dismissedQuestions: [] };

/** Returns the result of an access to a storage; null if the browser refuses it (storage disabled or full), or if the stored text is not JSON. */
function tryAccess<Result>(access: () => Result): Result | null {
  try {
    return access();
  } catch (error) {
    if (error instanceof DOMException || error instanceof SyntaxError) return null;
    throw error;
  }
}

export const loadTheme = (): Theme => THEMES.find((theme) => theme === tryAccess(() => localStorage.getItem(THEME_KEY))) ?? "system";
const storeTheme = (theme: Theme): void => void tryAccess(() => localStorage.setItem(THEME_KEY, theme));

/** Returns the state that the tab has stored for a map; an empty state for the list of all maps. */
export function loadTabState(map: string | null): TabState {
  const stored = map && tryAccess(() => JSON.parse(sessionStorage.getItem(TAB_STATE_PREFIX + map) ?? "null") as Partial<StoredTabState> | null);
  const { unseen, lookedAt, lastUpdate, dismissedQuestions } = { ...EMPTY_TAB_STATE, ...stored };
  return { unseen: new Map(unseen), unseenSince: lookedAt, lastUpdate, dismissedQuestions: new Set(dismissedQuestions) };
}

/** Stores the state of the shown map after each change of it. */
export function watchTabState(): void {
  const { unseen, lastUpdate, dismissedQuestions } = app.get();
  let stored = { unseen, lastUpdate, dismissedQuestions }; // not the whole state, which holds the maps
  app.subscribe(() => {
    const { route, unseen, unseenSince, lastUpdate, dismissedQuestions } = app.get();
    if (!route.map || (unseen === stored.unseen && lastUpdate === stored.lastUpdate && dismissedQuestions === stored.dismissedQuestions)) return;
    stored = { unseen, lastUpdate, dismissedQuestions };
    const tabState: StoredTabState = { unseen: [...unseen], lookedAt: unseenSince, lastUpdate, dismissedQuestions: [...dismissedQuestions] };
    tryAccess(() => sessionStorage.setItem(TAB_STATE_PREFIX + route.map, JSON.stringify(tabState)));
  });
}

// ---- theme

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
