// Buttons on the map: closer, wider, all of it; everything open or folded.

import { collapseAll, expandAll, toActive } from "../state/actions";
import { current, panes } from "../state/panes";
import { Tool } from "./icon";

export const fitAll = (): void => panes.forEach(({ scene }) => scene.fit());

export const Controls = () => (
  <div class="controls" role="toolbar" aria-label="Map">
    <Tool icon="plus" label="Closer" keys="+" onClick={() => current()?.scene.scaleBy(1.3)} />
    <Tool icon="minus" label="Wider" keys="-" onClick={() => current()?.scene.scaleBy(1 / 1.3)} />
    <Tool icon="fit" label="Fit all" keys="0" onClick={fitAll} />
    <Tool icon="target" label="Go to the task in progress" keys="g" onClick={toActive} />
    <Tool icon="expand" label="Unfold everything" keys="e" onClick={expandAll} />
    <Tool icon="collapse" label="Fold everything" keys="c" onClick={collapseAll} />
  </div>
);
