// Side panel with tabs for node, files and activity, and with minimaps.

import { useLayoutEffect, useRef } from "preact/hooks";
import { type Box, contains } from "../layout/geometry";
import type { Layout } from "../layout/layout";
import { getColourProperty, resolveColour } from "../render/canvas";
import { type Tab, app, getCurrentView, useSelector } from "../state/app";
import { type MapPart, listParts, panes, viewListeners } from "../state/panes";
import { ActivityLog } from "./activity";
import { Files } from "./files";
import { NodePanel } from "./node";
import { ToolButton } from "./widgets";

const TABS: [Tab, string][] = [
  ["node", "Node"],
  ["files", "Files"],
  ["activity", "Activity"],
];

export function SidePanel() {
  const tab = useSelector(app, (state) => state.tab);
  return (
    <aside class="side" aria-label="Details">
      <div class="side-head">
        <div class="tabs" role="tablist" aria-label="Details of" onKeyDown={onTabKey}>
          {TABS.map(([name, label]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-selected={tab === name}
              aria-controls="side-body"
              tabIndex={tab === name ? 0 : -1}
              onClick={() => app.set({ tab: name })}
            >
              {label}
            </button>
          ))}
        </div>
        <ToolButton icon="close" label="Close the panel" onClick={() => app.set({ isPanelOpen: false })} />
      </div>
      <div id="side-body" class="side-body" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "node" ? <NodePanel /> : tab === "files" ? <Files /> : <ActivityLog />}
      </div>
      <Minimaps />
    </aside>
  );
}

function onTabKey(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const index = TABS.findIndex(([name]) => name === app.get().tab);
  const [next] = TABS[(index + step + TABS.length) % TABS.length]!;
  app.set({ tab: next });
  document.getElementById(`tab-${next}`)?.focus();
  event.preventDefault();
  event.stopPropagation();
}

// ---- minimaps

// Sizes in pixels, as in the style sheet.
const MINIMAP_WIDTH = 168;
const MINIMAP_HEIGHT = 112;
const MINIMAP_MARGIN = 6;
// Pixels of the canvas for each pixel of the page, for sharp edges on dense screens.
const CANVAS_SCALE = 2;
// Interval of updates. Each new size of the viewport causes a page layout, which takes a fifth of an animation frame.
const VIEWPORT_UPDATE_MS = 60;

/** Minimaps of the panes. They are in the side panel, so that they cover no cards. */
function Minimaps() {
  const view = useSelector(app, getCurrentView);
  const mapId = useSelector(app, (state) => state.map?.id);
  return (
    <div class="minimaps">
      {listParts(view).map((part) => (
        <Minimap key={`${part} ${mapId}`} part={part} />
      ))}
    </div>
  );
}

/** Minimap with a rectangle (the viewport) around the visible part; dragging moves the view. Hidden while its pane shows all cards. */
function Minimap({ part }: { part: MapPart }) {
  const container = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const viewport = useRef<HTMLDivElement>(null);

  useLayoutEffect(() => {
    let timer = 0;
    let paintedLayout: Layout | null = null;
    const update = (): void => {
      timer = 0;
      const scene = panes.get(part)?.scene;
      if (!scene?.layout) return;
      if (scene.layout !== paintedLayout) paintCards(canvas.current!, (paintedLayout = scene.layout));
      moveViewport(scene.layout.bounds, scene.view, viewport.current!.style);
      container.current!.hidden = contains(scene.view, scene.layout.bounds);
    };
    const updateLater = (isRepaint = false): void => {
      if (isRepaint) {
        paintedLayout = null;
        update();
      } else timer ||= window.setTimeout(update, VIEWPORT_UPDATE_MS);
    };
    viewListeners.add(updateLater);
    updateLater();
    return () => {
      viewListeners.delete(updateLater);
      window.clearTimeout(timer);
    };
  }, [part]);

  const centreOnPointer = (event: PointerEvent): void => {
    const scene = panes.get(part)?.scene;
    if (!scene?.layout || !(event.buttons & 1)) return;
    const canvasBox = canvas.current!.getBoundingClientRect();
    const { scale, x, y } = computeMinimapTransform(scene.layout.bounds);
    const point = { x: (event.clientX - canvasBox.left - x) / scale, y: (event.clientY - canvasBox.top - y) / scale };
    scene.centreOn(point);
  };
  return (
    <div
      ref={container}
      class="minimap"
      hidden
      aria-hidden="true"
      onPointerDown={(event) => {
        (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        centreOnPointer(event);
      }}
      onPointerMove={centreOnPointer}
    >
      <canvas ref={canvas} width={MINIMAP_WIDTH * CANVAS_SCALE} height={MINIMAP_HEIGHT * CANVAS_SCALE} />
      <div ref={viewport} class="frame" />
    </div>
  );
}

function moveViewport(bounds: Box, view: Box, style: CSSStyleDeclaration): void {
  const { scale, x, y } = computeMinimapTransform(bounds);
  const left = Math.max(0, view.x * scale + x);
  const top = Math.max(0, view.y * scale + y);
  style.transform = `translate(${left}px, ${top}px)`;
  style.width = `${Math.max(3, Math.min(MINIMAP_WIDTH, (view.x + view.width) * scale + x) - left)}px`;
  style.height = `${Math.max(3, Math.min(MINIMAP_HEIGHT, (view.y + view.height) * scale + y) - top)}px`;
}

/** Returns the transform that fits the map into the minimap. */
function computeMinimapTransform(bounds: Box): { scale: number; x: number; y: number } {
  const scale = Math.min((MINIMAP_WIDTH - 2 * MINIMAP_MARGIN) / bounds.width, (MINIMAP_HEIGHT - 2 * MINIMAP_MARGIN) / bounds.height);
  return {
    scale,
    x: (MINIMAP_WIDTH - bounds.width * scale) / 2 - bounds.x * scale,
    y: (MINIMAP_HEIGHT - bounds.height * scale) / 2 - bounds.y * scale,
  };
}

function paintCards(canvas: HTMLCanvasElement, { cards, bounds }: Layout): void {
  const context = canvas.getContext("2d")!;
  const { scale, x, y } = computeMinimapTransform(bounds);
  context.setTransform(CANVAS_SCALE, 0, 0, CANVAS_SCALE, 0, 0);
  context.clearRect(0, 0, MINIMAP_WIDTH, MINIMAP_HEIGHT);
  for (const placedCard of cards.values()) {
    context.fillStyle = resolveColour(getColourProperty(placedCard.branch.node));
    context.fillRect(placedCard.x * scale + x, placedCard.y * scale + y, Math.max(1, placedCard.width * scale), Math.max(0.7, placedCard.height * scale));
  }
}
