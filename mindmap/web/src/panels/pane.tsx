// Pane with a tree of cards.

import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import type { Drawing } from "../layout/drawing";
import { findActiveTask } from "../model/progress";
import { findAncestors } from "../model/tree";
import { ROOT } from "../model/vocabulary";
import { Scene } from "../render/scene";
import { type AppState, app, getCurrentView, getMatches, getHighlightedNodes } from "../state/app";
import { select, toggleCollapsed } from "../state/actions";
import { type MapPart, createDrawing, getFonts } from "../state/drawings";
import { notifyViewListeners, panes } from "../state/panes";
import { useSelector } from "../state/store";
import { Controls } from "./controls";

const TITLES: Record<MapPart, string> = { map: "Whole map", plan: "Plan", model: "Mental model" };

export function Pane({ part, hasControls }: { part: MapPart; hasControls: boolean }) {
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

/** Returns the nodes to keep in view, the most important last: the path to the selected node, or else to the active task; then added nodes. */
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
