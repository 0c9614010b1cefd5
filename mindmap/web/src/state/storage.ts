// What the browser stores for the page: the theme, and for each tab what the user has not seen yet of the maps.

import type { ChangeKind } from "../model/changes";
import { type AppState, type Theme, app } from "./app";

// Key of the theme in the local storage, and start of the keys of maps in the session storage. Another format of the
// stored values needs other keys.
const THEME = "mindmap-theme";
const THEMES: readonly Theme[] = ["system", "light", "dark"];
const TAB_STATE = "mindmap-tab ";

/** Part of the state that survives a reload of the page. */
type TabState = Pick<AppState, "unseen" | "lookedAt" | "lastUpdate" | "dismissedQuestions">;

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

export const loadTheme = (): Theme => THEMES.find((theme) => theme === tryAccess(() => localStorage.getItem(THEME))) ?? "system";
export const storeTheme = (theme: Theme): void => void tryAccess(() => localStorage.setItem(THEME, theme));

/** Returns what the tab has stored about a map; nothing for the list of all maps. */
export function loadTabState(map: string | null): TabState {
  const stored = map && tryAccess(() => JSON.parse(sessionStorage.getItem(TAB_STATE + map) ?? "null") as Partial<StoredTabState> | null);
  const { unseen, lookedAt, lastUpdate, dismissedQuestions } = { ...EMPTY_TAB_STATE, ...stored };
  return { unseen: new Map(unseen), lookedAt, lastUpdate, dismissedQuestions: new Set(dismissedQuestions) };
}

/** Stores the state of the shown map after each change of it. */
export function watchTabState(): void {
  const { unseen, lastUpdate, dismissedQuestions } = app.get();
  let stored = { unseen, lastUpdate, dismissedQuestions }; // not the whole state, which holds the maps
  app.subscribe(() => {
    const { route, unseen, lookedAt, lastUpdate, dismissedQuestions } = app.get();
    if (!route.map || (unseen === stored.unseen && lastUpdate === stored.lastUpdate && dismissedQuestions === stored.dismissedQuestions)) return;
    stored = { unseen, lastUpdate, dismissedQuestions };
    const tabState: StoredTabState = { unseen: [...unseen], lookedAt, lastUpdate, dismissedQuestions: [...dismissedQuestions] };
    tryAccess(() => sessionStorage.setItem(TAB_STATE + route.map, JSON.stringify(tabState)));
  });
}
