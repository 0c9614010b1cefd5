// A pane: a tree of cards to look at, move in and go through by keys.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { MapNode, Mindmap } from "../api/types";
import type { Drawing } from "../layout/drawing";
import { joined, laidOut } from "../layout/layout";
import { type Card, type Fonts, cardOf } from "../layout/card";
import { routed } from "../layout/links";
import { measured } from "../layout/text";
import type { Progress } from "../model/progress";
import { type Branch, type Keep, ancestors, everything, grown, walked } from "../model/tree";
import { Scene } from "../render/scene";
import { type App, app, foundIn, litIn, modelSideOf, progressOf } from "../state/app";
import { select, toggle } from "../state/actions";
import { unfolded } from "../state/folding";
import { panes } from "../state/panes";
import { useChosen } from "../state/store";
import { Minimap } from "./minimap";

export type Part = "map" | "plan" | "model";
const TITLES: Record<Part, string> = { map: "Map", plan: "Plan", model: "Mental model" };

function keepOf(map: Mindmap, part: Part): Keep {
  const model = modelSideOf(map);
  return part === "map" ? everything : ({ id }) => model.has(id) === (part === "model");
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
let fonts: Fonts | null = null;
const fontsOf = (): Fonts => (fonts ??= { label: measured(`500 13.5px ${FONT}`), bold: measured(`650 13.5px ${FONT}`), small: measured(`11.5px ${FONT}`) });

const cardsOf = new WeakMap<MapNode, Map<string, Card>>();

/** The card of a node, the same object as long as it says the same: what did not change is not drawn again. */
function cardFor(node: MapNode, under: Progress | undefined, hidden: number, foldable: boolean): Card {
  let cards = cardsOf.get(node);
  if (!cards) cardsOf.set(node, (cards = new Map()));
  const key = `${under?.done}/${under?.total} ${hidden} ${foldable}`;
  let card = cards.get(key);
  if (!card) cards.set(key, (card = cardOf(node, under, hidden, foldable, fontsOf())));
  return card;
}

/** The cards of a part of a map, laid out. */
export function drawingOf(map: Mindmap, part: Part, collapsed: ReadonlySet<string>, among: ReadonlySet<string> | null, aspect: number, before?: Drawing): Drawing {
  const wanted = among && withAncestors(map, among);
  const shown = keepOf(map, part);
  const keep: Keep = (node) => shown(node) && (!wanted || wanted.has(node.id));
  const whole = grown(map, keep);
  const { tree, hidden, home } = unfolded(whole, wanted ? new Set() : collapsed);
  const sources = new Map<string, Branch>([...walked(whole)].map((branch) => [branch.id, branch]));
  const under = progressOf(map);
  const cards = new Map<string, Card>();
  for (const { id, node } of walked(tree)) {
    cards.set(id, cardFor(node, part === "model" ? undefined : under.get(id), hidden.get(id) ?? 0, sources.get(id)!.children.length > 0));
  }
  const layout = laidOut(tree, cards, aspect, before?.layout);
  const routes = routed(map.links, layout, home);
  const bounds = routes.reduce((all, { box }) => joined(all, box), layout.bounds);
  return { layout: { ...layout, bounds }, home, routes };
}

function withAncestors(map: Mindmap, ids: ReadonlySet<string>): Set<string> {
  const all = new Set(ids);
  for (const id of ids) for (const above of ancestors(map, id)) all.add(above.id);
  return all;
}

export function Pane({ part, title }: { part: Part; title: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const tree = useRef<HTMLDivElement>(null);
  const scene = useRef<Scene | null>(null);
  const minimap = useRef<{ draw: () => void; follow: () => void } | null>(null);
  const map = useChosen(app, (state) => state.map)!;
  const collapsed = useChosen(app, (state) => state.collapsed);
  const among = useChosen(app, (state) => (state.only ? foundIn(state) : null));
  const selected = useChosen(app, (state) => state.route.node);

  useLayoutEffect(() => {
    const made = new Scene(host.current!, part, fontsOf().small, {
      select: (id) => {
        select(id, false);
        tree.current!.focus({ preventScroll: true });
      },
      toggle,
      point: (id) => app.get().hovered !== id && app.set({ hovered: id }),
      moved: () => minimap.current?.follow(),
    });
    scene.current = made;
    const watcher = new ResizeObserver(() => {
      made.resized();
      minimap.current?.follow();
    });
    watcher.observe(host.current!);
    const recolour = (): void => {
      made.anew();
      minimap.current?.draw();
    };
    panes.set(part, { scene: made, tree: tree.current!, recolour });
    const stop = app.subscribe(() => made.mark(lookOf(app.get())));
    return () => {
      stop();
      watcher.disconnect();
      panes.delete(part);
    };
  }, [part]);

  const last = useRef<Drawing | undefined>(undefined);
  useLayoutEffect(() => {
    const drawing = drawingOf(map, part, collapsed, among, scene.current!.aspect, last.current);
    const first = !last.current;
    last.current = drawing;
    scene.current!.show(drawing);
    scene.current!.mark(lookOf(app.get()));
    if (first) scene.current!.fit(false);
    minimap.current?.draw();
  }, [part, map, collapsed, among]);

  useEffect(() => {
    if (selected) scene.current!.reveal(selected);
  }, [selected, part]);

  const shown = selected && last.current?.home.get(selected);
  return (
    <section class={`pane ${part}`} aria-label={TITLES[part]}>
      {title && <h2 class="pane-title">{TITLES[part]}</h2>}
      <div
        ref={tree}
        class="canvas"
        role="tree"
        tabIndex={0}
        aria-label={`${TITLES[part]} of ${map.title}. Arrow keys go through it.`}
        aria-activedescendant={shown ? `${part}-${shown}` : undefined}
        data-part={part}
        onFocus={() => app.get().route.node || select(map.nodes["root"]!.id, false)}
      >
        <div ref={host} class="stage" role="presentation" />
      </div>
      <Minimap scene={scene} handle={minimap} />
    </section>
  );
}

function lookOf(state: App) {
  const { nodes, alone } = litIn(state);
  const found = foundIn(state);
  return {
    selected: state.route.node,
    pointed: state.hovered,
    lit: nodes,
    only: alone ? nodes : found,
    fresh: state.fresh,
  };
}
