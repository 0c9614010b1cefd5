// Toolbar of the map: zoom, expand and collapse.

import { collapseAll, expandAll, goToActiveTask } from "../state/actions";
import { fitAll, zoomIn, zoomOut } from "../state/panes";
import { ToolButton } from "./icon";

export const Controls = () => (
  <div class="controls" role="toolbar" aria-label="View">
    <ToolButton icon="plus" label="Zoom in" keys="+" onClick={zoomIn} />
    <ToolButton icon="minus" label="Zoom out" keys="-" onClick={zoomOut} />
    <ToolButton icon="fit" label="Fit all" keys="0" onClick={fitAll} />
    <ToolButton icon="target" label="Go to the task in progress" keys="g" onClick={goToActiveTask} />
    <ToolButton icon="expand" label="Expand all" keys="e" onClick={expandAll} />
    <ToolButton icon="collapse" label="Collapse all" keys="c" onClick={collapseAll} />
  </div>
);
