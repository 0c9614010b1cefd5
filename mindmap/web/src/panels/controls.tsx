// Toolbar of the map: zoom, expand and collapse.

import { collapseAll, expandAll, goToActiveTask } from "../state/actions";
import { getCurrentPane, panes } from "../state/panes";
import { ToolButton } from "./icon";

export const fitAll = (): void => panes.forEach(({ scene }) => scene.fit());

export const Controls = () => (
  <div class="controls" role="toolbar" aria-label="View">
    <ToolButton icon="plus" label="Zoom in" keys="+" onClick={() => getCurrentPane()?.scene.scaleBy(1.3)} />
    <ToolButton icon="minus" label="Zoom out" keys="-" onClick={() => getCurrentPane()?.scene.scaleBy(1 / 1.3)} />
    <ToolButton icon="fit" label="Fit all" keys="0" onClick={fitAll} />
    <ToolButton icon="target" label="Go to the task in progress" keys="g" onClick={goToActiveTask} />
    <ToolButton icon="expand" label="Expand all" keys="e" onClick={expandAll} />
    <ToolButton icon="collapse" label="Collapse all" keys="c" onClick={collapseAll} />
  </div>
);
