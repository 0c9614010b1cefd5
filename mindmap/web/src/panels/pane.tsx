// Pane with a tree of cards.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { MapNode, Mindmap } from "../api/types";
import type { Drawing } from "../layout/drawing";
import { uniteBoxes, layOutMap } from "../layout/layout";
import { type Card, type Fonts, createCard } from "../layout/card";
import { routeLinks } from "../layout/links";
import { createMeasure } from "../layout/text";
import type { Progress } from "../model/progress";
import { type Branch, type NodeFilter, findAncestors, includeAll, buildTree, walkTree } from "../model/tree";
import { Scene } from "../render/scene";
import { type AppState, app, getMatches, getHighlightedNodes, getModelNodeIds, getProgress } from "../state/app";
import { select, toggleCollapsed } from "../state/actions";
import { collapseTree } from "../state/collapse";
import { panes } from "../state/panes";
import { useSelector } from "../state/store";
import { Minimap, type MinimapHandle } from "./minimap";

export type MapPart = "map" | "plan" | "model";
const TITLES: Record<MapPart, string> = { map: "Map", plan: "Plan", model: "Mental model" };

function createFilter(map: Mindmap, part: MapPart): NodeFilter {
  const modelIds = getModelNodeIds(map);
  return part === "map" ? includeAll : ({ id }) => modelIds.has(id) === (part === "model");
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
let fonts: Fonts | null = null;
const getFonts = (): Fonts => (fonts ??= { label: createMeasure(`500 13.5px ${FONT}`), bold: createMeasure(`650 13.5px ${FONT}`), small: createMeasure(`11.5px ${FONT}`) });

const cardCache = new WeakMap<MapNode, Map<string, Card>>();

/** Returns the cached card of a node. The same object marks a card that need not be drawn again. */
function getCard(node: MapNode, taskProgress: Progress | undefined, hiddenCount: number, isCollapsible: boolean): Card {
  let cards = cardCache.get(node);
  if (!cards) cardCache.set(node, (cards = new Map()));
  const key = `${taskProgress?.done}/${taskProgress?.total} ${hiddenCount} ${isCollapsible}`;
  let card = cards.get(key);
  if (!card) cards.set(key, (card = createCard(node, taskProgress, hiddenCount, isCollapsible, getFonts())));
  return card;
}

/** Lays out the cards and links of a part of a map. */
export function createDrawing(map: Mindmap, part: MapPart, collapsed: ReadonlySet<string>, matches: ReadonlySet<string> | null, aspect: number, previous?: Drawing): Drawing {
  const matchesAndAncestors = matches && addAncestors(map, matches);
  const isInPart = createFilter(map, part);
  const includes: NodeFilter = (node) => isInPart(node) && (!matchesAndAncestors || matchesAndAncestors.has(node.id));
  const fullTree = buildTree(map, includes);
  const { tree, hiddenCounts, visibleIdOf } = collapseTree(fullTree, matchesAndAncestors ? new Set() : collapsed);
  const branchesById = new Map<string, Branch>([...walkTree(fullTree)].map((branch) => [branch.id, branch]));
  const progressById = getProgress(map);
  const cards = new Map<string, Card>();
  for (const { id, node } of walkTree(tree)) {
    cards.set(id, getCard(node, part === "model" ? undefined : progressById.get(id), hiddenCounts.get(id) ?? 0, branchesById.get(id)!.children.length > 0));
  }
  const layout = layOutMap(tree, cards, aspect, previous?.layout);
  const routes = routeLinks(map.links, layout, visibleIdOf);
  const bounds = routes.reduce((all, { box }) => uniteBoxes(all, box), layout.bounds);
  return { layout: { ...layout, bounds }, visibleIdOf, routes };
}

function addAncestors(map: Mindmap, ids: ReadonlySet<string>): Set<string> {
  const all = new Set(ids);
  for (const id of ids) for (const ancestor of findAncestors(map, id)) all.add(ancestor.id);
  return all;
}

export function Pane({ part, title }: { part: MapPart; title: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const tree = useRef<HTMLDivElement>(null);
  const scene = useRef<Scene | null>(null);
  const minimap = useRef<MinimapHandle | null>(null);
  const map = useSelector(app, (state) => state.map)!;
  const collapsed = useSelector(app, (state) => state.collapsed);
  const matches = useSelector(app, (state) => (state.showOnlyMatches ? getMatches(state) : null));
  const selected = useSelector(app, (state) => state.route.node);

  useLayoutEffect(() => {
    const newScene = new Scene(host.current!, part, getFonts().small, {
      select: (id) => {
        select(id, false);
        tree.current!.focus({ preventScroll: true });
      },
      toggle: toggleCollapsed,
      hover: (id) => app.get().hovered !== id && app.set({ hovered: id }),
      onMove: () => minimap.current?.scheduleViewportUpdate(),
    });
    scene.current = newScene;
    const watcher = new ResizeObserver(() => {
      newScene.onResize();
      minimap.current?.scheduleViewportUpdate();
    });
    watcher.observe(host.current!);
    const repaint = (): void => {
      newScene.redrawAll();
      minimap.current?.draw();
    };
    panes.set(part, { scene: newScene, tree: tree.current!, repaint });
    const stop = app.subscribe(() => newScene.setHighlight(buildHighlight(app.get())));
    return () => {
      stop();
      watcher.disconnect();
      panes.delete(part);
    };
  }, [part]);

  const lastDrawing = useRef<Drawing | undefined>(undefined);
  useLayoutEffect(() => {
    const drawing = createDrawing(map, part, collapsed, matches, scene.current!.aspect, lastDrawing.current);
    const isFirst = !lastDrawing.current;
    lastDrawing.current = drawing;
    scene.current!.show(drawing);
    scene.current!.setHighlight(buildHighlight(app.get()));
    if (isFirst) scene.current!.fit(false);
    minimap.current?.draw();
  }, [part, map, collapsed, matches]);

  useEffect(() => {
    if (selected) scene.current!.reveal(selected);
  }, [selected, part]);

  const activeCard = selected && lastDrawing.current?.visibleIdOf.get(selected);
  return (
    <section class={`pane ${part}`} aria-label={TITLES[part]}>
      {title && <h2 class="pane-title">{TITLES[part]}</h2>}
      <div
        ref={tree}
        class="canvas"
        role="tree"
        tabIndex={0}
        aria-label={`${TITLES[part]} of ${map.title}. Use the arrow keys to move.`}
        aria-activedescendant={activeCard ? `${part}-${activeCard}` : undefined}
        data-part={part}
        onFocus={() => app.get().route.node || select(map.nodes["root"]!.id, false)}
      >
        <div ref={host} class="stage" role="presentation" />
      </div>
      <Minimap scene={scene} handle={minimap} />
    </section>
  );
}

function buildHighlight(state: AppState) {
  const { nodes, isExclusive } = getHighlightedNodes(state);
  const matches = getMatches(state);
  return {
    selected: state.route.node,
    hovered: state.hovered,
    related: nodes,
    unfaded: isExclusive ? nodes : matches,
    recentChanges: state.recentChanges,
  };
}
