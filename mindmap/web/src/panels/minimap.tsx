// Minimap with a rectangle, the viewport, around the visible part; dragging moves the view.

import type { RefObject } from "preact";
import { useImperativeHandle, useRef } from "preact/hooks";
import { type Box, type Layout, contains } from "../layout/layout";
import { resolveColour, getColourProperty } from "../render/colours";
import type { Scene } from "../render/scene";

// Pixels, as in the style sheet.
const WIDTH = 168;
const HEIGHT = 112;
// A new viewport size causes a page layout, which takes a fifth of an animation frame during a gesture.
const VIEWPORT_UPDATE_MS = 60;

/** Methods for the pane: `draw` after a change of the map, `scheduleViewportUpdate` after a move of the view. */
export interface MinimapHandle {
  draw: () => void;
  scheduleViewportUpdate: () => void;
}

export function Minimap({ scene, handle }: { scene: RefObject<Scene | null>; handle: RefObject<MinimapHandle | null> }) {
  const container = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const viewport = useRef<HTMLDivElement>(null);

  const updateViewport = (): void => {
    const layout = scene.current?.layout;
    if (!layout || !viewport.current || !container.current) return;
    const { view } = scene.current!;
    const { scale, x, y } = computeMinimapTransform(layout.bounds);
    const style = viewport.current.style;
    const left = Math.max(0, view.x * scale + x);
    const top = Math.max(0, view.y * scale + y);
    style.transform = `translate(${left}px, ${top}px)`;
    style.width = `${Math.max(3, Math.min(WIDTH, (view.x + view.width) * scale + x) - left)}px`;
    style.height = `${Math.max(3, Math.min(HEIGHT, (view.y + view.height) * scale + y) - top)}px`;
    container.current.hidden = contains(view, layout.bounds);
  };
  const timer = useRef(0);
  const scheduleViewportUpdate = (): void => {
    timer.current ||= window.setTimeout(() => {
      timer.current = 0;
      updateViewport();
    }, VIEWPORT_UPDATE_MS);
  };
  const draw = (): void => {
    if (scene.current?.layout && canvas.current) paintCards(canvas.current, scene.current.layout);
    updateViewport();
  };
  useImperativeHandle(handle, () => ({ draw, scheduleViewportUpdate }), []);

  const centreOnPointer = (event: PointerEvent): void => {
    const layout = scene.current?.layout;
    if (!layout || !(event.buttons & 1)) return;
    const canvasBox = canvas.current!.getBoundingClientRect();
    const { scale, x, y } = computeMinimapTransform(layout.bounds);
    const point = { x: (event.clientX - canvasBox.left - x) / scale, y: (event.clientY - canvasBox.top - y) / scale };
    scene.current!.centreOn(point);
  };
  return (
    <div
      ref={container}
      class="minimap"
      aria-hidden="true"
      onPointerDown={(event) => {
        (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        centreOnPointer(event);
      }}
      onPointerMove={centreOnPointer}
    >
      <canvas ref={canvas} width={WIDTH * 2} height={HEIGHT * 2} />
      <div ref={viewport} class="frame" />
    </div>
  );
}

/** Returns the transform that fits the map into the minimap. */
function computeMinimapTransform(bounds: Box): { scale: number; x: number; y: number } {
  const scale = Math.min((WIDTH - 12) / bounds.width, (HEIGHT - 12) / bounds.height);
  return {
    scale,
    x: (WIDTH - bounds.width * scale) / 2 - bounds.x * scale,
    y: (HEIGHT - bounds.height * scale) / 2 - bounds.y * scale,
  };
}

function paintCards(canvas: HTMLCanvasElement, { cards, bounds }: Layout): void {
  const context = canvas.getContext("2d")!;
  const { scale, x, y } = computeMinimapTransform(bounds);
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, WIDTH, HEIGHT);
  for (const placedCard of cards.values()) {
    context.fillStyle = resolveColour(getColourProperty(placedCard.branch.node));
    context.fillRect(placedCard.x * scale + x, placedCard.y * scale + y, Math.max(1, placedCard.width * scale), Math.max(0.7, placedCard.height * scale));
  }
}
