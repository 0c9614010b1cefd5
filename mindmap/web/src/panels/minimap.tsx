// The whole map in small, with a frame around what is in view; dragging in it moves the view.

import type { RefObject } from "preact";
import { useImperativeHandle, useRef } from "preact/hooks";
import type { Box, Layout } from "../layout/layout";
import { colourOf, markOf } from "../render/colours";
import type { Scene } from "../render/scene";

const WIDTH = 168;
const HEIGHT = 112;
// Another size of the frame has the page laid out: at each step of a gesture that takes a fifth of the time there is.
const FOLLOW_MS = 60;

export interface Handle {
  draw: () => void;
  follow: () => void;
}

export function Minimap({ scene, handle }: { scene: RefObject<Scene | null>; handle: RefObject<Handle | null> }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);

  const placeFrame = (): void => {
    const layout = scene.current?.layout;
    if (!layout || !frame.current || !box.current) return;
    const { view } = scene.current!;
    const { scale, x, y } = placed(layout.bounds);
    const style = frame.current.style;
    const left = Math.max(0, view.x * scale + x);
    const top = Math.max(0, view.y * scale + y);
    style.transform = `translate(${left}px, ${top}px)`;
    style.width = `${Math.max(3, Math.min(WIDTH, (view.x + view.width) * scale + x) - left)}px`;
    style.height = `${Math.max(3, Math.min(HEIGHT, (view.y + view.height) * scale + y) - top)}px`;
    box.current.hidden = contains(view, layout.bounds);
  };
  const due = useRef(0);
  const follow = (): void => {
    due.current ||= window.setTimeout(() => {
      due.current = 0;
      placeFrame();
    }, FOLLOW_MS);
  };
  const draw = (): void => {
    if (scene.current?.layout && canvas.current) painted(canvas.current, scene.current.layout);
    placeFrame();
  };
  useImperativeHandle(handle, () => ({ draw, follow }), []);

  const jump = (event: PointerEvent): void => {
    const layout = scene.current?.layout;
    if (!layout || !(event.buttons & 1)) return;
    const corner = canvas.current!.getBoundingClientRect();
    const { scale, x, y } = placed(layout.bounds);
    const point = { x: (event.clientX - corner.left - x) / scale, y: (event.clientY - corner.top - y) / scale };
    scene.current!.centre(point);
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

function placed(bounds: Box): { scale: number; x: number; y: number } {
  const scale = Math.min((WIDTH - 12) / bounds.width, (HEIGHT - 12) / bounds.height);
  return {
    scale,
    x: (WIDTH - bounds.width * scale) / 2 - bounds.x * scale,
    y: (HEIGHT - bounds.height * scale) / 2 - bounds.y * scale,
  };
}

function painted(canvas: HTMLCanvasElement, { places, bounds }: Layout): void {
  const context = canvas.getContext("2d")!;
  const { scale, x, y } = placed(bounds);
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, WIDTH, HEIGHT);
  for (const place of places.values()) {
    context.fillStyle = colourOf(markOf(place.branch.node));
    context.fillRect(place.x * scale + x, place.y * scale + y, Math.max(1, place.width * scale), Math.max(0.7, place.height * scale));
  }
}

const contains = (outer: Box, inner: Box): boolean =>
  outer.x <= inner.x && outer.y <= inner.y && outer.x + outer.width >= inner.x + inner.width && outer.y + outer.height >= inner.y + inner.height;
