// Links of the hovered or selected node to the other pane, drawn across the divider.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Link } from "../api/types";
import { type Box, intersects } from "../layout/layout";
import { combineLabels, getLinkStyle, routeBetween } from "../layout/links";
import { addToGroup } from "../model/relations";
import { createLinkElements } from "../render/links";
import { type AppState, app, getCrossLinks } from "../state/app";
import { getFonts } from "../state/drawings";
import { type PaneHandle, panes, viewListeners } from "../state/panes";

// Grid step of the routes, and their distance from cards, in pixels of the screen. They are smaller than in the layout,
// because the panes may be zoomed out.
const STEP = 4;
const MARGIN = 3;
// Links to a card outside the view of its pane end in a strip of this many pixels at the edge of the pane.
const EDGE_STRIP = 8;
// Time from the last move of the view until the links are drawn again.
const REDRAW_MS = 80;

export function CrossLinks() {
  const svg = useRef<SVGSVGElement>(null);
  useLayoutEffect(() => {
    let timer = 0;
    let drawnFor: unknown[] = [];
    const draw = (): void => svg.current!.replaceChildren(...createElements(app.get(), svg.current!));
    const redrawLater = (): void => {
      svg.current!.replaceChildren();
      window.clearTimeout(timer);
      timer = window.setTimeout(draw, REDRAW_MS);
    };
    const update = (): void => {
      const { map, collapsed, hovered, route } = app.get();
      const inputs = [map, collapsed, hovered ?? route.node];
      if (inputs.every((input, index) => input === drawnFor[index])) return;
      drawnFor = inputs;
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

/** Repeats an event of a link on what is below it, because links only react to the pointer being over them. */
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
  const geometries = routeBetween(ends, listObstacles(handles, origin), area, measure, STEP, MARGIN);
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
