// Actions of the user and reactions to server events. Both change the state.

import * as api from "../api/client";
import { type ServerEvent, subscribeShared } from "../api/events";
import type { Mindmap } from "../api/types";
import { findMentions } from "../model/activity";
import { type NodeChanges, findChangesSince, mergeChanges, reconcileMap, removeDeletedNodes } from "../model/changes";
import { findActiveTask, listOpenQuestions } from "../model/progress";
import { findAncestors } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { type Route, type View, app, formatRoute, getCollapsed, getMatches, getRelations, INITIAL_MAP_STATE, isOutlineShown, parseRoute } from "./app";
import { chooseCollapsedNodes } from "./collapse";
import { collapseToFit, panes } from "./panes";
import { loadTabState } from "./storage";

// Time for which changes are highlighted: long enough to notice after a switch from another window.
const HIGHLIGHT_MS = 4_000;
const NOTICE_MS = 6_000;

// ---- route

/** Shows what the address names: at the start, and after a click on a link or a step through the history. */
export function readRoute(): void {
  const route = parseRoute(location.hash);
  const { route: previousRoute, map, isPanelOpen } = app.get();
  const isSameMap = map !== null && route.map === previousRoute.map;
  // A new address has no state in the history, unlike the entries of nodes that the page opened.
  const isNodeOpened = route.node !== null && (!isSameMap || history.state === null);
  app.set({ route, isPanelOpen: isPanelOpen || isNodeOpened, ...(route.map === previousRoute.map ? {} : { ...INITIAL_MAP_STATE, ...loadTabState(route.map) }) });
  if (route.node) app.set({ tab: "node", ...(isSameMap ? { logIndex: null, file: null, collapsed: expandTo(map, [route.node]) } : {}) });
  if (route.map !== previousRoute.map) void refresh();
}

/**
 * How a route enters the history of the browser: "open" adds a step, "move" adds one for all moves in a row, such as
 * those of the arrow keys, and "replace" adds none.
 */
type HistoryStep = "open" | "move" | "replace";

function setRoute(route: Route, step: HistoryStep = "replace"): void {
  const isAdded = step === "open" || (step === "move" && history.state !== "move");
  history[isAdded ? "pushState" : "replaceState"](step === "replace" ? history.state : step, "", formatRoute(route));
  app.set({ route });
}

/** Goes to a route as a click on a link does, but at once, because the browser's event arrives later. */
export function openRoute(route: Route): void {
  location.hash = formatRoute(route);
  readRoute();
}

/** Selects a node, or none, and shows it. An unknown id changes nothing. */
export function select(id: string | null, { expandsAncestors = true, historyStep = "open" as HistoryStep } = {}): void {
  const { route, map } = app.get();
  if (id && !map?.nodes[id]) return;
  if (id !== route.node) setRoute({ ...route, node: id }, historyStep);
  markAsSeen(id ? [id] : []);
  if (id) app.set({ tab: "node", file: null, logIndex: null, ...(expandsAncestors ? { collapsed: expandTo(map!, [id]) } : {}) });
}

/** Selects a node if the page has loaded it; otherwise goes to the route of its map and node. */
function showNodeOfMap(map: string, node: string): void {
  const { route } = app.get();
  if (route.map === map && app.get().map?.nodes[node]) select(node);
  else openRoute({ map, node, view: route.map === map ? route.view : null });
}

export function showView(view: View): void {
  setRoute({ ...app.get().route, view });
  app.set({ phoneTab: "map" });
}

// ---- loading

let isLoading = false;
let isReloadNeeded = false;

/** Reloads the map or the sessions. A call during a reload causes one more reload afterwards. */
export async function refresh(): Promise<void> {
  if (isLoading) {
    isReloadNeeded = true;
    return;
  }
  isLoading = true;
  const { map } = app.get().route;
  try {
    if (map) applyMap(map, await api.fetchMindmap(map));
    else {
      const [sessions] = await Promise.all([api.fetchSessionSummaries(), loadStatus()]);
      app.set({ sessions, failure: null });
    }
  } catch (error) {
    api.assertApiError(error);
    if (app.get().route.map === map) {
      app.set({ failure: error });
      if (error.code === api.NO_SUCH_MAP) await loadOtherSessions();
    }
  } finally {
    isLoading = false;
    const isReloadDue = isReloadNeeded || app.get().route.map !== map;
    isReloadNeeded = false;
    if (isReloadDue) void refresh();
  }
}

/** Loads the sessions that the page offers in place of a missing map. */
async function loadOtherSessions(): Promise<void> {
  try {
    app.set({ sessions: await api.fetchSessionSummaries() });
  } catch (error) {
    api.assertApiError(error); // the page then links to the list of all sessions
  }
}

async function loadStatus(): Promise<void> {
  const { problems, dataDir, defaultDataDir } = await api.fetchStatus();
  app.set({ problems, dataDir, defaultDataDir });
}

function applyMap(id: string, map: Mindmap): void {
  const { route, map: previous, logIndex, unseenSince, lastUpdate } = app.get();
  if (route.map !== id) return;
  const hiddenBefore = hiddenSince;
  if (!document.hidden) hiddenSince = "";
  const unseen = removeDeletedNodes(app.get().unseen, map);
  if (!previous) {
    const missedChanges: NodeChanges = lastUpdate ? findChangesSince(map, lastUpdate) : new Map();
    app.set({
      map,
      failure: null,
      unseen: mergeChanges(unseen, missedChanges),
      unseenSince: missedChanges.size && !unseen.size ? lastUpdate : unseenSince,
      lastUpdate: map.updatedAt,
      isCollapsedByUser: false,
      // The panes are not on the page yet. Once they are, they expand what fits.
      collapsed: chooseCollapsedNodes(map, [], route.node ? [route.node] : []),
    });
    return;
  }
  if (previous.updatedAt === map.updatedAt && JSON.stringify(previous) === JSON.stringify(map)) {
    app.set({ failure: null });
    return;
  }
  const { nodes: changes, hasTreeChanged } = reconcileMap(previous, map);
  app.set({
    map,
    failure: null,
    lastUpdate: map.updatedAt,
    ...(route.node && !previous.nodes[route.node] ? { collapsed: expandTo(map, [route.node]) } : {}),
    recentChanges: mergeChanges(app.get().recentChanges, changes),
    unseen: hiddenBefore ? mergeChanges(unseen, changes) : unseen,
    unseenSince: hiddenBefore && changes.size && !unseen.size ? hiddenBefore : unseenSince,
    logIndex: logIndex === null ? null : Math.min(logIndex + countNewEntries(previous, map), map.activityLog.length - 1),
  });
  const added = [...changes].flatMap(([id, kind]) => (kind === "added" ? id : []));
  if (hasTreeChanged || findActiveTask(previous) !== findActiveTask(map)) collapseToFit(added, true);
  if (app.get().isFollowing) followAgent(map, changes.keys());
  if (changes.size) window.setTimeout(() => clearHighlights(changes), HIGHLIGHT_MS);
}

/** Returns the number of log entries that were added; 0 if the entry that was the newest before is gone. */
function countNewEntries({ activityLog: [newest] }: Mindmap, { activityLog }: Mindmap): number {
  return newest ? Math.max(activityLog.findIndex(({ timestamp }) => timestamp === newest.timestamp), 0) : 0;
}

function clearHighlights(changes: NodeChanges): void {
  app.set({ recentChanges: new Map([...app.get().recentChanges].filter(([id]) => !changes.has(id))) });
}

function followAgent(map: Mindmap, ids: Iterable<string>): void {
  const [latest] = map.activityLog;
  const id = latest?.nodeId ?? [...ids][0];
  if (id && map.nodes[id]) select(id, { historyStep: "replace" });
}

export function watchServer(): void {
  subscribeShared(handleEvent, () => app.set({ connection: "offline" }));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hiddenSince ||= new Date().toISOString();
    else if (isReloadMissed) reloadIfVisible();
    else hiddenSince = "";
  });
}

let isReloadMissed = false;
/** ISO timestamp of when the tab was hidden; empty if the tab has shown the current map since. */
let hiddenSince = "";

/** Reloads at once; if the tab is hidden, as soon as it becomes visible. */
function reloadIfVisible(): void {
  isReloadMissed = document.hidden;
  if (!isReloadMissed) void refresh();
}

function handleEvent(event: ServerEvent): void {
  if (event.type === "connected") {
    app.set({ connection: "live" });
    if (!app.get().dataDir) void loadStatus().catch(api.assertApiError); // after an error, later events try again
    reloadIfVisible(); // events may have been missed
  } else {
    const { map } = app.get().route;
    if (!map || map === event.id) reloadIfVisible();
    if (document.hidden && map === event.id && app.get().map) void notifyOfQuestions(map);
  }
}

// ---- notifications of the browser about questions, while the tab is hidden

let isCheckingQuestions = false;
const notifiedIds = new Set<string>();

/** Shows a notification for each open question that the hidden tab does not show yet. A click on it opens the node. */
async function notifyOfQuestions(id: string): Promise<void> {
  if (isCheckingQuestions || !("Notification" in window) || Notification.permission !== "granted") return;
  isCheckingQuestions = true;
  try {
    const shownIds = new Set(listOpenQuestions(app.get().map!).map(({ question }) => question.id));
    for (const { node, question } of listOpenQuestions(await api.fetchMindmap(id))) {
      if (shownIds.has(question.id) || notifiedIds.has(question.id)) continue;
      notifiedIds.add(question.id);
      // The tag is the same in other tabs, so the browser shows one notification for all tabs.
      const notification = new Notification(`${question.client ?? "An agent"} asks about ${node.label}`, { body: question.text, tag: question.id });
      notification.onclick = () => (window.focus(), showNodeOfMap(id, node.id));
    }
  } catch (error) {
    api.assertApiError(error); // the next event tries again
  } finally {
    isCheckingQuestions = false;
  }
}

// ---- changes while the tab was hidden, and dismissed questions

export function markAsSeen(ids: Iterable<string>): void {
  const unseen = new Map(app.get().unseen);
  const { size } = unseen;
  for (const id of ids) unseen.delete(id);
  if (unseen.size < size) app.set({ unseen });
}

/** Selects the next node that changed while the tab was hidden. */
export function showNextUnseen(): void {
  const [id] = app.get().unseen.keys();
  if (!id) return;
  markAsSeen([id]);
  select(id);
}

/** Hides an open question above the map. It stays on its card, in the panel of its node, and for the agent. */
export function dismissQuestion(id: string): void {
  app.set({ dismissedQuestions: new Set([...app.get().dismissedQuestions, id]) });
}

// ---- collapsing

/** Returns the collapsed nodes without the ancestors of the given nodes. */
function expandTo(map: Mindmap, ids: Iterable<string>): Set<string> {
  const collapsed = new Set(app.get().collapsed);
  for (const id of ids) for (const ancestor of findAncestors(map, id)) collapsed.delete(ancestor.id);
  return collapsed;
}

export function toggleCollapsed(id: string): void {
  for (const { scene } of panes.values()) scene.anchorTo(id);
  setCollapsed(toggleInSet(getCollapsed(app.get()), id));
}

export const expandAll = (): void => setCollapsed(new Set());

export function collapseAll(): void {
  const nodes = Object.values(app.get().map?.nodes ?? {});
  setCollapsed(new Set(nodes.filter((node) => node.children.length && node.id !== ROOT).map((node) => node.id)));
}

const setCollapsed = (collapsed: ReadonlySet<string>): void => app.set(isOutlineShown(app.get()) ? { collapsedRows: collapsed } : { collapsed, isCollapsedByUser: true });

// ---- search

/** Selects the next match, or the previous one. */
export function selectNextMatch(step: 1 | -1): void {
  const matches = [...(getMatches(app.get()) ?? [])];
  if (!matches.length) return;
  const index = matches.indexOf(app.get().route.node ?? "");
  select(matches[index < 0 ? (step > 0 ? 0 : matches.length - 1) : (index + step + matches.length) % matches.length]!, { historyStep: "move" });
}

export function toggleInSet(set: ReadonlySet<string>, value: string): Set<string> {
  const copy = new Set(set);
  if (!copy.delete(value)) copy.add(value);
  return copy;
}

export const clearSearch = (): void => app.set({ search: "", types: new Set(), statuses: new Set(), showOnlyMatches: false });

/** Shows the selected node, or without a selection the task in progress, at a readable size. */
export function zoomToNode(): void {
  const { map, route } = app.get();
  const id = map?.nodes[route.node ?? ""]?.id ?? (map && findActiveTask(map));
  if (!id) {
    notify("No node is selected, and no task is in progress.");
    return;
  }
  select(id);
  // The zoom waits, because the panes draw the node's expanded ancestors in a microtask.
  window.setTimeout(() => panes.forEach(({ scene }) => scene.zoomTo(id)));
}

// ---- activity log

/** Shows an entry of the log, 0 the newest, and selects the first node that it mentions. Null or a negative index shows none. */
export function showLogEntry(index: number | null): void {
  const { map } = app.get();
  const entry = index === null ? undefined : map?.activityLog[Math.min(index, map.activityLog.length - 1)];
  if (!map || !entry) {
    app.set({ logIndex: null });
    return;
  }
  const [id] = findMentions(map, getRelations(map), entry);
  if (id) select(id, { historyStep: "move" });
  app.set({ logIndex: map.activityLog.indexOf(entry), file: null });
}

/** Steps through the log by `count` entries: to older ones, or to newer ones if negative. A step beyond the newest entry shows none. */
export const stepThroughLog = (count: number): void => showLogEntry((app.get().logIndex ?? -1) + count);

// ---- notices and git sync

let noticeTimer = 0;

export function notify(text: string, isError = false): void {
  app.set({ notice: { text, isError } });
  window.clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => app.set({ notice: null }), NOTICE_MS);
}

export const formatError = ({ message, hint }: api.ApiError): string => `${message} ${hint}`.trim();

export async function syncWithGit(): Promise<void> {
  const { map, isSyncing } = app.get();
  if (!map || isSyncing) return;
  if (!map.workspacePath) {
    notify("This map has no workspace to sync. Ask an agent to create a map with a workspace.");
    return;
  }
  app.set({ isSyncing: true });
  try {
    const { synced, mindmap } = await api.syncGit(map.id);
    applyMap(map.id, mindmap);
    notify(synced ? `Git sync: ${synced} ${synced === 1 ? "file" : "files"} attached.` : "Git sync: no changed files.");
  } catch (error) {
    api.assertApiError(error);
    notify(`Git sync failed: ${formatError(error)}`, true);
  } finally {
    app.set({ isSyncing: false });
  }
}

/** Sends an answer to a question; returns true if it was recorded. */
export const answerQuestion = (question: string, answer: string): Promise<boolean> => sendMessage((map) => api.postAnswer(map, question, answer));

/** Sends a comment on a node; returns true if it was recorded. */
export const addComment = (node: string, text: string): Promise<boolean> => sendMessage((map) => api.postComment(map, node, text));

async function sendMessage(post: (map: string) => Promise<{ mindmap: Mindmap }>): Promise<boolean> {
  const { map } = app.get();
  if (!map) return false;
  try {
    applyMap(map.id, (await post(map.id)).mindmap);
    return true;
  } catch (error) {
    api.assertApiError(error);
    notify(formatError(error), true);
    return false;
  }
}
