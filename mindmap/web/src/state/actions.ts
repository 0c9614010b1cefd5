// What a person does, and what the server tells: each changes the state.

import * as api from "../api/client";
import type { Told } from "../api/events";
import { listenTogether } from "../api/shared";
import type { Mindmap } from "../api/types";
import { changed, kept } from "../model/changes";
import { activeTask } from "../model/progress";
import { ancestors } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { forgetColours } from "../render/colours";
import { app, foundIn, type Theme } from "./app";
import { folded } from "./folding";
import { panes } from "./panes";
import { parsed, type Route, type View, written } from "./route";

// As long as the eye needs to come back from another window.
const FRESH_MS = 4_000;
const NOTICE_MS = 6_000;

// ---- addresses

export function readRoute(): void {
  const route = parsed(location.hash);
  const before = app.get().route;
  app.set({ route, ...(route.map === before.map ? {} : { map: null, failure: null, step: null, file: null, fresh: new Map(), search: "", types: new Set(), statuses: new Set(), only: false }) });
  if (route.map !== before.map) void refresh();
}

function go(route: Route): void {
  history.replaceState(null, "", written(route));
  app.set({ route });
}

export function select(id: string | null, reveal = true): void {
  const { route, map } = app.get();
  if (id && !map?.nodes[id]) return;
  go({ ...route, node: id });
  if (id) app.set({ tab: "node", file: null, ...(reveal ? { collapsed: opened(map!, [id]) } : {}) });
}

export const show = (view: View): void => go({ ...app.get().route, view });

// ---- what is read

let reading = false;
let stale = false;

/** Reads what is shown again; told while it is being read, once more afterwards. */
export async function refresh(): Promise<void> {
  if (reading) {
    stale = true;
    return;
  }
  reading = true;
  const { map } = app.get().route;
  try {
    if (map) took(map, await api.mindmap(map));
    else {
      const [sessions, { problems, dataDir }] = await Promise.all([api.sessions(), api.status()]);
      app.set({ sessions, broken: problems, dataDir, failure: null });
    }
  } catch (error) {
    if (error instanceof api.Failure && app.get().route.map === map) app.set({ failure: error });
    else if (!(error instanceof api.Failure)) throw error;
  } finally {
    reading = false;
    const again = stale || app.get().route.map !== map;
    stale = false;
    if (again) void refresh();
  }
}

function took(id: string, after: Mindmap): void {
  const { route, map: before, step } = app.get();
  if (route.map !== id) return;
  if (!before) {
    app.set({ map: after, failure: null, collapsed: folded(after) });
    if (route.node) app.set({ collapsed: opened(after, [route.node]) });
    return;
  }
  if (before.updatedAt === after.updatedAt && JSON.stringify(before) === JSON.stringify(after)) {
    app.set({ failure: null });
    return;
  }
  const fresh = changed(before, after);
  const added = before.activityLog.length ? after.activityLog.findIndex((entry) => entry.timestamp === before.activityLog[0]!.timestamp) : 0;
  app.set({
    map: kept(before, after),
    failure: null,
    fresh: new Map([...app.get().fresh, ...fresh]),
    step: step === null ? null : Math.min(step + Math.max(added, 0), after.activityLog.length - 1),
  });
  if (app.get().follow) follow(after, fresh.keys());
  window.setTimeout(() => fade(fresh.keys()), FRESH_MS);
}

function fade(ids: Iterable<string>): void {
  const fresh = new Map(app.get().fresh);
  for (const id of ids) fresh.delete(id);
  app.set({ fresh });
}

function follow(map: Mindmap, ids: Iterable<string>): void {
  const [latest] = map.activityLog;
  const id = latest?.nodeId ?? [...ids][0];
  if (id && map.nodes[id]) select(id);
}

export function watch(): void {
  listenTogether(heard, () => app.set({ connection: "offline" }));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && missed) look();
  });
}

let missed = false;

/** Reads again what is shown; a tab that nobody sees does when somebody does. */
function look(): void {
  missed = document.hidden;
  if (!missed) void refresh();
}

function heard(told: Told): void {
  if (told.type === "connected") {
    app.set({ connection: "live" });
    look(); // what was missed meanwhile
  } else {
    const { map } = app.get().route;
    if (!map || map === told.id) look();
  }
}

// ---- folding

export function opened(map: Mindmap, ids: Iterable<string>): Set<string> {
  const collapsed = new Set(app.get().collapsed);
  for (const id of ids) for (const above of ancestors(map, id)) collapsed.delete(above.id);
  return collapsed;
}

export function toggle(id: string): void {
  const collapsed = new Set(app.get().collapsed);
  if (!collapsed.delete(id)) collapsed.add(id);
  app.set({ collapsed });
}

export const expandAll = (): void => app.set({ collapsed: new Set() });

export function collapseAll(): void {
  const nodes = Object.values(app.get().map?.nodes ?? {});
  app.set({ collapsed: new Set(nodes.filter((node) => node.children.length && node.id !== ROOT).map((node) => node.id)) });
}

// ---- finding

/** Goes to the next thing found, or the one before. */
export function nextFound(by: 1 | -1): void {
  const found = [...(foundIn(app.get()) ?? [])];
  if (!found.length) return;
  const at = found.indexOf(app.get().route.node ?? "");
  select(found[at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length]!);
}

export function toggled(set: ReadonlySet<string>, value: string): Set<string> {
  const copy = new Set(set);
  if (!copy.delete(value)) copy.add(value);
  return copy;
}

export const clearSearch = (): void => app.set({ search: "", types: new Set(), statuses: new Set(), only: false });

export function toActive(): void {
  const { map } = app.get();
  const active = map && activeTask(map);
  if (active) select(active);
  else notify("No task is in progress.");
}

// ---- the log

export function stepTo(step: number | null): void {
  const { map } = app.get();
  if (!map || step === null || step < 0) app.set({ step: null });
  else app.set({ step: Math.min(step, map.activityLog.length - 1), file: null });
}

export const stepBy = (by: number): void => stepTo((app.get().step ?? -1) + by);

// ---- the rest

let quiet = 0;

export function notify(text: string, bad = false): void {
  app.set({ notice: { text, bad } });
  window.clearTimeout(quiet);
  quiet = window.setTimeout(() => app.set({ notice: null }), NOTICE_MS);
}

export async function sync(): Promise<void> {
  const { map, syncing } = app.get();
  if (!map || syncing) return;
  if (!map.workspacePath) {
    notify("Git sync needs a map with a workspace.");
    return;
  }
  app.set({ syncing: true });
  try {
    const { synced, mindmap } = await api.syncGit(map.id);
    took(map.id, mindmap);
    notify(synced ? `Git sync: ${synced} ${synced === 1 ? "file" : "files"} attached.` : "Git sync: nothing differs from HEAD.");
  } catch (error) {
    if (!(error instanceof api.Failure)) throw error;
    notify(`Git sync failed: ${error.message} ${error.hint}`.trim(), true);
  } finally {
    app.set({ syncing: false });
  }
}

const THEME = "mindmap-theme";

export function setTheme(theme: Theme): void {
  app.set({ theme });
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  recoloured();
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // a browser that keeps nothing
  }
}

/** Light has become dark, or the other way round. */
export function recoloured(): void {
  forgetColours();
  for (const { recolour } of panes.values()) recolour();
}

export function readTheme(): void {
  try {
    setTheme((localStorage.getItem(THEME) as Theme | null) ?? "system");
  } catch {
    setTheme("system");
  }
}
