// Minimap with a frame around the visible part; dragging moves the view.

import type { RefObject } from "preact";
import { useImperativeHandle, useRef } from "preact/hooks";
import type { Box, Layout } from "../layout/layout";
import { resolveColour, nodeColourProperty } from "../render/colours";
import type { Scene } from "../render/scene";

const WIDTH = 168;
const HEIGHT = 112;
// A new size of the frame causes a page layout, which takes a fifth of a frame's time during a gesture.
const FRAME_UPDATE_MS = 60;

export interface MinimapHandle {
  draw: () => void;
  follow: () => void;
}

export function Minimap({ scene, handle }: { scene: RefObject<Scene | null>; handle: RefObject<MinimapHandle | null> }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);

  const placeFrame = (): void => {
    const layout = scene.current?.layout;
    if (!layout || !frame.current || !box.current) return;
    const { view } = scene.current!;
    const { scale, x, y } = mapToMinimap(layout.bounds);
    const style = frame.current.style;
    const left = Math.max(0, view.x * scale + x);
    const top = Math.max(0, view.y * scale + y);
    style.transform = `translate(${left}px, ${top}px)`;
    style.width = `${Math.max(3, Math.min(WIDTH, (view.x + view.width) * scale + x) - left)}px`;
    style.height = `${Math.max(3, Math.min(HEIGHT, (view.y + view.height) * scale + y) - top)}px`;
    box.current.hidden = contains(view, layout.bounds);
  };
  const timer = useRef(0);
  const follow = (): void => {
    timer.current ||= window.setTimeout(() => {
      timer.current = 0;
      placeFrame();
    }, FRAME_UPDATE_MS);
  };
  const draw = (): void => {
    if (scene.current?.layout && canvas.current) paintMap(canvas.current, scene.current.layout);
    placeFrame();
  };
  useImperativeHandle(handle, () => ({ draw, follow }), []);

  const jump = (event: PointerEvent): void => {
    const layout = scene.current?.layout;
    if (!layout || !(event.buttons & 1)) return;
    const corner = canvas.current!.getBoundingClientRect();
    const { scale, x, y } = mapToMinimap(layout.bounds);
    const point = { x: (event.clientX - corner.left - x) / scale, y: (event.clientY - corner.top - y) / scale };
    scene.current!.centreOn(point);
  };
  return (
    <div
      ref={box}
      class="minimap"
      aria-hidden="true"
      onPointerDown={(event) => {
        (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        jump(event);
      }}
      onPointerMove={jump}
    >
      <canvas ref={canvas} width={WIDTH * 2} height={HEIGHT * 2} />
      <div ref={frame} class="frame" />
    </div>
  );
}

function mapToMinimap(bounds: Box): { scale: number; x: number; y: number } {
  const scale = Math.min((WIDTH - 12) / bounds.width, (HEIGHT - 12) / bounds.height);
  return {
    scale,
    x: (WIDTH - bounds.width * scale) / 2 - bounds.x * scale,
    y: (HEIGHT - bounds.height * scale) / 2 - bounds.y * scale,
  };
}

function paintMap(canvas: HTMLCanvasElement, { cards, bounds }: Layout): void {
  const context = canvas.getContext("2d")!;
  const { scale, x, y } = mapToMinimap(bounds);
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, WIDTH, HEIGHT);
  for (const placed of cards.values()) {
    context.fillStyle = resolveColour(nodeColourProperty(placed.branch.node));
    context.fillRect(placed.x * scale + x, placed.y * scale + y, Math.max(1, placed.width * scale), Math.max(0.7, placed.height * scale));
  }
}

const contains = (outer: Box, inner: Box): boolean =>
  outer.x <= inner.x && outer.y <= inner.y && outer.x + outer.width >= inner.x + inner.width && outer.y + outer.height >= inner.y + inner.height;
