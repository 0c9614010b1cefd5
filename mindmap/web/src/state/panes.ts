// Panes on the screen: their registry, their drawings, and the nodes to collapse so that the drawings fit.

import type { Link, MapNode, Mindmap } from "../api/types";
import { type Card, type Fonts, createCard, createMeasure } from "../layout/card";
import type { Size } from "../layout/geometry";
import { type Layout, fitsAtOpeningScale, layOutMap } from "../layout/layout";
import { type Drawing, routeLinks } from "../layout/links";
import { type Progress, computeProgress } from "../model/progress";
import { type Branch, buildTree, findAncestors, getTree, memoizeByObject, walkTree } from "../model/tree";
import type { Scene } from "../render/scene";
import { type View, app, getCrossLinks, getModelNodeIds } from "./app";
import { chooseCollapsedNodes, collapseTree } from "./collapse";

// ---- registry, for keys and toolbar buttons

export interface PaneHandle {
  scene: Scene;
  tree: HTMLElement;
  /** Lays the map out again, after a change of the pane's size. */
  layOutAgain: () => void;
  /** Repaints the canvases, which the style sheet does not reach. */
  repaint: () => void;
}

/** Functions to call after a pane's view has moved, or its drawing or colours have changed. `isRepaint`: the colours have changed. */
export const viewListeners = new Set<(isRepaint?: boolean) => void>();

export function notifyViewListeners(isRepaint = false): void {
  for (const listener of viewListeners) listener(isRepaint);
}

export const panes = new Map<string, PaneHandle>();

/** Returns the focused pane, or else the first. */
export function getCurrentPane(): PaneHandle | null {
  const allPanes = [...panes.values()];
  return allPanes.find(({ tree }) => tree.contains(document.activeElement)) ?? allPanes[0] ?? null;
}

// Change of the scale by one press of a button or key.
const ZOOM_FACTOR = 1.3;

export const zoomIn = (): void => getCurrentPane()?.scene.scaleBy(ZOOM_FACTOR);
export const zoomOut = (): void => getCurrentPane()?.scene.scaleBy(1 / ZOOM_FACTOR);
export const fitAll = (): void => panes.forEach(({ scene }) => scene.fit());

// ---- drawings

/** Part of a map that one pane shows. */
export type MapPart = "map" | "plan" | "model";
export const listParts = (view: View): MapPart[] => (view === "both" ? ["plan", "model"] : [view]);

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
let fonts: Fonts | null = null;
export const getFonts = (): Fonts => (fonts ??= { label: createMeasure(`500 13.5px ${FONT}`), bold: createMeasure(`650 13.5px ${FONT}`), small: createMeasure(`12px ${FONT}`) });

const cardCache = new WeakMap<MapNode, Map<string, Card>>();

/** Returns the cached card of a node. A card that is still the same object is not drawn again. */
function getCard(node: MapNode, taskProgress: Progress | undefined, hiddenCount: number, crossLinkCount: number, isCollapsible: boolean): Card {
  let cards = cardCache.get(node);
  if (!cards) cardCache.set(node, (cards = new Map()));
  const key = `${taskProgress?.done}/${taskProgress?.total} ${hiddenCount} ${crossLinkCount} ${isCollapsible}`;
  let card = cards.get(key);
  if (!card) cards.set(key, (card = createCard(node, taskProgress, hiddenCount, crossLinkCount, isCollapsible, getFonts())));
  return card;
}

/** Tree of a part with nothing collapsed, and the ids of its nodes with children. */
interface PartTree {
  tree: Branch;
  parents: Set<string>;
}

const partTrees = memoizeByObject((_map: Mindmap) => new Map<MapPart, PartTree>());

function getPartTree(map: Mindmap, part: MapPart): PartTree {
  let partTree = partTrees(map).get(part);
  if (!partTree) {
    const modelIds = getModelNodeIds(map);
    partTree = createPartTree(part === "map" ? getTree(map) : buildTree(map, ({ id }) => modelIds.has(id) === (part === "model")));
    partTrees(map).set(part, partTree);
  }
  return partTree;
}

function createPartTree(tree: Branch): PartTree {
  const parents = new Set<string>();
  for (const { id, children } of walkTree(tree)) if (children.length) parents.add(id);
  return { tree, parents };
}

/** Returns the tree of the nodes of a part that match a search, and of their ancestors. */
function createMatchTree(map: Mindmap, part: MapPart, matches: ReadonlySet<string>): PartTree {
  const ids = new Set([...walkTree(getPartTree(map, part).tree)].map(({ id }) => id));
  const included = new Set(matches);
  for (const id of matches) for (const ancestor of findAncestors(map, id)) included.add(ancestor.id);
  return createPartTree(buildTree(map, ({ id }) => ids.has(id) && included.has(id)));
}

/** Lays out the cards of a part of a map for a pane's size; with matches, only these and their ancestors, all expanded. */
function layOutPart(map: Mindmap, part: MapPart, collapsed: ReadonlySet<string>, matches: ReadonlySet<string> | null, crossLinks: Link[], size: Size, previous?: Layout): Pick<Drawing, "layout" | "visibleIdOf"> {
  const { tree: fullTree, parents } = matches ? createMatchTree(map, part, matches) : getPartTree(map, part);
  const { tree, hiddenCounts, visibleIdOf } = collapseTree(fullTree, matches ? new Set() : collapsed);
  const progressById = computeProgress(map);
  const crossLinkCounts = countByCard(crossLinks, visibleIdOf);
  const cards = new Map<string, Card>();
  for (const { id, node } of walkTree(tree)) {
    cards.set(id, getCard(node, part === "model" ? undefined : progressById.get(id), hiddenCounts.get(id) ?? 0, crossLinkCounts.get(id) ?? 0, parents.has(id)));
  }
  return { layout: layOutMap(tree, cards, size, previous), visibleIdOf };
}

/** Counts links to another part by the card that shows their end in this part. */
function countByCard(links: Link[], visibleIdOf: Map<string, string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { from, to } of links) {
    const id = visibleIdOf.get(from) ?? visibleIdOf.get(to);
    if (id) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}

/** Lays out the cards and links of a part of a map. Side by side, its cards count their links to the other part. */
export function createDrawing(map: Mindmap, part: MapPart, collapsed: ReadonlySet<string>, matches: ReadonlySet<string> | null, isSideBySide: boolean, size: Size, previous?: Drawing): Drawing {
  const { layout, visibleIdOf } = layOutPart(map, part, collapsed, matches, isSideBySide && !matches ? getCrossLinks(map) : [], size, previous?.layout);
  const shownLinks = map.links.filter(({ from, to }) => visibleIdOf.has(from) && visibleIdOf.has(to));
  const boxes = [...layout.cards].map(([id, { x, y, width, height }]) => [id, x, y, width, height]);
  const ends = shownLinks.map((link) => [visibleIdOf.get(link.from), visibleIdOf.get(link.to), link]);
  const routesKey = JSON.stringify([boxes, ends]);
  const routes = routesKey === previous?.routesKey ? previous.routes : routeLinks(shownLinks, layout, visibleIdOf, getFonts().small);
  return { layout, visibleIdOf, routes, routesKey };
}

/**
 * Collapses what does not fit at a readable size in the panes that follow the map, unless the user has chosen what is
 * collapsed. The paths to added nodes are expanded. Panes that the user has moved keep what they show.
 */
export function collapseToFit(addedIds: Iterable<string>, isAnimated: boolean): void {
  const { map, isCollapsedByUser, route, collapsed: before } = app.get();
  const parts = [...panes].map(([part, { scene }]) => ({ part: part as MapPart, scene, size: scene.availableSize }));
  const followingParts = parts.filter(({ scene }) => scene.isFollowing);
  if (!map || isCollapsedByUser || !followingParts.length) return;
  const partsToFit = followingParts.map(({ part, scene, size }) => ({
    has: (id: string) => getPartTree(map, part).parents.has(id),
    fits: (collapsed: ReadonlySet<string>) => fitsAtOpeningScale(layOutPart(map, part, collapsed, null, [], size, scene.layout ?? undefined).layout, size),
  }));
  const chosenIds = chooseCollapsedNodes(map, partsToFit, [...(route.node ? [route.node] : []), ...addedIds]);
  const isInMovedPane = (id: string): boolean => parts.some(({ part, scene }) => !scene.isFollowing && getPartTree(map, part).parents.has(id));
  const collapsed = new Set([...[...chosenIds].filter((id) => !isInMovedPane(id)), ...[...before].filter(isInMovedPane)]);
  if (collapsed.size === before.size && [...collapsed].every((id) => before.has(id))) return;
  if (!isAnimated) for (const { scene } of panes.values()) scene.skipAnimation();
  app.set({ collapsed });
}

/** Adapts the panes to new sizes, and collapses what does not fit, once for all of them. */
export function resizePanes(): void {
  const resizedPanes = [...panes.values()].filter(({ scene }) => scene.onResize());
  const followingPanes = resizedPanes.filter(({ scene }) => scene.isFollowing);
  if (followingPanes.length) collapseToFit([], false);
  for (const { scene, layOutAgain } of followingPanes) {
    scene.skipAnimation();
    layOutAgain();
  }
  notifyViewListeners();
}
