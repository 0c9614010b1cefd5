// Panes of the map, each with a tree of cards, and the links between them.

import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import type { Link } from "../api/types";
import { type Box, intersects } from "../layout/geometry";
import { type Drawing, combineLabels, getLinkStyle, routeBetween } from "../layout/links";
import { findActiveTask } from "../model/progress";
import { addToGroup } from "../model/relations";
import { findAncestors } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { createLinkElements } from "../render/elements";
import { Scene } from "../render/scene";
import { collapseAll, expandAll, select, toggleCollapsed, zoomToNode } from "../state/actions";
import { type AppState, app, getCrossLinks, getCurrentView, getHighlightedNodes, getMatches, useSelector } from "../state/app";
import { type MapPart, type PaneHandle, collapseToFit, createDrawing, fitAll, getFonts, listParts, notifyViewListeners, panes, resizePanes, viewListeners, zoomIn, zoomOut } from "../state/panes";
import { ToolButton } from "./widgets";

export function Panes() {
  const view = useSelector(app, getCurrentView);
  const mapId = useSelector(app, (state) => state.map?.id);
  const parts = listParts(view);
  useLayoutEffect(() => {
    // Layout effects of children run first, so each Pane has registered its size here.
    collapseToFit([], false);
    const watcher = new ResizeObserver(resizePanes);
    for (const { tree } of panes.values()) watcher.observe(tree);
    return () => watcher.disconnect();
  }, [mapId, view]);
  return (
    <div class="panes">
      {parts.map((part) => (
        <Pane key={`${part} ${mapId}`} part={part} hasControls={part === parts.at(-1)} />
      ))}
      {parts.length > 1 && <CrossLinks key={mapId} />}
    </div>
  );
}

const TITLES: Record<MapPart, string> = { map: "Whole map", plan: "Plan", model: "Mental model" };

function Pane({ part, hasControls }: { part: MapPart; hasControls: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const tree = useRef<HTMLDivElement>(null);
  const scene = useRef<Scene | null>(null);
  const map = useSelector(app, (state) => state.map)!;
  const collapsed = useSelector(app, (state) => state.collapsed);
  const matches = useSelector(app, (state) => (state.showOnlyMatches ? getMatches(state) : null));
  const selected = useSelector(app, (state) => state.route.node);
  const isSideBySide = useSelector(app, (state) => getCurrentView(state) === "both");
  const [resizeCount, layOutAgain] = useReducer((count: number) => count + 1, 0);

  useLayoutEffect(() => {
    const newScene = new Scene(host.current!, part, getFonts().small, {
      select: (id) => {
        select(id, { expandsAncestors: false });
        tree.current!.focus({ preventScroll: true });
      },
      toggle: toggleCollapsed,
      zoom: (id) => newScene.zoomTo(id),
      hover: (id) => app.get().hovered !== id && app.set({ hovered: id }),
      onMove: notifyViewListeners,
    });
    scene.current = newScene;
    const repaint = (): void => {
      newScene.redrawAll();
      notifyViewListeners(true);
    };
    panes.set(part, { scene: newScene, tree: tree.current!, layOutAgain: () => layOutAgain(undefined as never), repaint });
    const stop = app.subscribe(() => newScene.setHighlight(buildHighlight(app.get())));
    return () => {
      stop();
      panes.delete(part);
    };
  }, [part]);

  const lastDrawing = useRef<Drawing | undefined>(undefined);
  useLayoutEffect(() => {
    const drawing = createDrawing(map, part, collapsed, matches, isSideBySide, scene.current!.availableSize, lastDrawing.current);
    lastDrawing.current = drawing;
    scene.current!.show(drawing, listFocus(app.get()));
    scene.current!.setHighlight(buildHighlight(app.get()));
    notifyViewListeners();
  }, [part, map, collapsed, matches, isSideBySide, resizeCount]);

  useEffect(() => {
    if (selected) scene.current!.reveal(selected);
  }, [selected, part]);

  const activeCard = selected && lastDrawing.current?.visibleIdOf.get(selected);
  return (
    <section class={`pane ${part}`} aria-label={TITLES[part]}>
      <div class="pane-head">
        <h2>{TITLES[part]}</h2>
        {hasControls && <Controls />}
      </div>
      <div
        ref={tree}
        class="canvas"
        role="tree"
        tabIndex={0}
        aria-label={`${TITLES[part]} of ${map.title}. Use the arrow keys to move.`}
        aria-activedescendant={activeCard ? `${part}-${activeCard}` : undefined}
        data-part={part}
        onFocus={({ currentTarget }) => app.get().route.node || !currentTarget.matches(":focus-visible") || select(ROOT, { expandsAncestors: false, historyStep: "replace" })}
      >
        <div ref={host} class="stage" role="presentation" />
      </div>
    </section>
  );
}

/** Returns the nodes to keep in view, the most important last: the path to the selected node, or else to the active task, and then the added nodes. */
function listFocus({ map, route, recentChanges }: AppState): string[] {
  const id = route.node ?? findActiveTask(map!);
  const path = id ? [...findAncestors(map!, id).reverse().map((node) => node.id), id] : [];
  return [...path, ...[...recentChanges].flatMap(([added, kind]) => (kind === "added" ? added : []))];
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
    unseen: state.unseen,
  };
}

// ---- toolbar

const Controls = () => (
  <div class="controls" role="toolbar" aria-label="View">
    <ToolButton icon="plus" label="Zoom in" keys="+" onClick={zoomIn} />
    <ToolButton icon="minus" label="Zoom out" keys="-" onClick={zoomOut} />
    <ToolButton icon="fit" label="Fit all" keys="0" onClick={fitAll} />
    <ToolButton icon="target" label="Zoom to the selected node or the task in progress" keys="g" onClick={zoomToNode} />
    <ToolButton icon="expand" label="Expand all" keys="e" onClick={expandAll} />
    <ToolButton icon="collapse" label="Collapse all" keys="c" onClick={collapseAll} />
  </div>
);

// ---- links between the panes

// Grid step of the routes, and their distance from cards, in pixels of the screen. They are smaller than in the layout,
// because the panes may be zoomed out.
const ROUTE_STEP = 4;
const ROUTE_MARGIN = 3;
// Links to a card outside the view of its pane end in a strip of this many pixels at the edge of the pane.
const EDGE_STRIP = 8;
// Time from the last move of the view until the links are drawn again.
const REDRAW_MS = 80;

/** Links of the hovered or selected node to the other pane, drawn across the divider. */
function CrossLinks() {
  const svg = useRef<SVGSVGElement>(null);
  useLayoutEffect(() => {
    let timer = 0;
    let lastInputs: unknown[] = [];
    const draw = (): void => svg.current!.replaceChildren(...createElements(app.get(), svg.current!));
    const redrawLater = (): void => {
      svg.current!.replaceChildren();
      window.clearTimeout(timer);
      timer = window.setTimeout(draw, REDRAW_MS);
    };
    const update = (): void => {
      const { map, collapsed, hovered, route } = app.get();
      const inputs = [map, collapsed, hovered ?? route.node];
      if (inputs.every((input, index) => input === lastInputs[index])) return;
      lastInputs = inputs;
      redrawLater();
    };
    viewListeners.add(redrawLater);
    const stop = app.subscribe(update);
    redrawLater();
    return () => {
      stop();
      viewListeners.delete(redrawLater);
      window.clearTimeout(timer);
    };
  }, []);
  return (
    <svg
      ref={svg}
      class="scene cross-links"
      aria-hidden="true"
      onPointerOut={() => app.set({ hovered: null })}
      onWheel={forwardToPane}
      onMouseDown={forwardToPane}
      onClick={forwardToPane}
    />
  );
}

/** Dispatches an event of a link again on the element below it, because links react only to hovering. */
function forwardToPane(event: MouseEvent): void {
  const links = event.currentTarget as SVGSVGElement;
  const below = document.elementsFromPoint(event.clientX, event.clientY).find((element) => !links.contains(element));
  if (event.type === "wheel") event.preventDefault(); // the page would scroll
  below?.dispatchEvent(new (event.constructor as typeof MouseEvent)(event.type, event));
}

function createElements({ map, hovered, route }: AppState, svg: SVGSVGElement): SVGElement[] {
  const id = hovered ?? route.node;
  const handles = [...panes.values()];
  const pane = handles.find(({ scene }) => scene.currentDrawing?.visibleIdOf.has(id ?? ""));
  const other = handles.find((handle) => handle !== pane);
  if (!map || !id || !pane || !other) return [];
  const origin = svg.getBoundingClientRect();
  const card = pane.scene.findCard(id)!.branch.id;
  const findBox = (handle: PaneHandle, node: string): Box | null => {
    const placedCard = handle.scene.findCard(node);
    return placedCard && clipBox(handle.scene.toScreen(placedCard, origin), handle.scene.getScreenBox(origin));
  };
  // One arrow for all links with the same ends, direction and style.
  const groups = new Map<string, Link[]>();
  for (const link of getCrossLinks(map)) {
    const isOutgoing = pane.scene.findCard(link.from)?.branch.id === card;
    const isIncoming = pane.scene.findCard(link.to)?.branch.id === card;
    const end = isOutgoing ? other.scene.findCard(link.to) : isIncoming ? other.scene.findCard(link.from) : null;
    if (!end) continue;
    const cards = isOutgoing ? [card, end.branch.id] : [end.branch.id, card];
    const key = `${cards.join(" ")} ${getLinkStyle(link)}`;
    addToGroup(groups, key, link);
  }
  const measure = getFonts().small;
  const ends = [...groups].flatMap(([key, links]) => {
    const { from, to } = links[0]!;
    const boxes = [findBox(pane, from) ?? findBox(other, from), findBox(pane, to) ?? findBox(other, to)] as const;
    return boxes[0] && boxes[1] ? [{ key, links, from, to, boxes: [boxes[0], boxes[1]] as const, label: combineLabels(links, measure) }] : [];
  });
  const top = Math.min(...handles.map(({ scene }) => scene.getScreenBox(origin).y));
  const area = { x: 0, y: top, width: origin.width, height: origin.height - top };
  const geometries = routeBetween(ends, listObstacles(handles, origin), area, measure, ROUTE_STEP, ROUTE_MARGIN);
  const elements = ends.map(({ boxes: _boxes, ...end }, index) => createLinkElements({ ...end, style: getLinkStyle(end.links[0]!), ...geometries[index]! }));
  for (const { line, label } of elements) for (const part of [line, label]) part?.classList.add("hot");
  return [...elements.map(({ line }) => line), ...elements.flatMap(({ label }) => label ?? [])];
}

/** Returns the boxes of the visible cards of the panes, and of the parts of their headings. */
const listObstacles = (handles: PaneHandle[], origin: Box): Box[] =>
  handles.flatMap(({ scene, tree }) => {
    const pane = scene.getScreenBox(origin);
    // Title and controls; links to a pane above or below run between them.
    const heading = [...tree.previousElementSibling!.children].map((part) => part.getBoundingClientRect());
    const cards = [...(scene.layout?.cards.values() ?? [])].map((placedCard) => scene.toScreen(placedCard, origin));
    return [...heading.map(({ x, y, width, height }) => ({ x: x - origin.x, y: y - origin.y, width, height })), ...cards.filter((card) => intersects(card, pane))];
  });

/** Returns the part of a box inside an area. For a box outside, returns a strip at the edge of the area, where its links end. */
function clipBox(box: Box, area: Box): Box {
  const [left, right] = clipRange(box.x, box.width, area.x, area.width);
  const [top, bottom] = clipRange(box.y, box.height, area.y, area.height);
  return { x: left, y: top, width: right - left, height: bottom - top };
}

function clipRange(start: number, length: number, areaStart: number, areaLength: number): [number, number] {
  const areaEnd = areaStart + areaLength;
  return [Math.max(Math.min(start, areaEnd - EDGE_STRIP), areaStart), Math.min(Math.max(start + length, areaStart + EDGE_STRIP), areaEnd)];
}
