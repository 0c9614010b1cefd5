// Toolbar of the map: zoom, expand and collapse.

import { collapseAll, expandAll, zoomToNode } from "../state/actions";
import { fitAll, zoomIn, zoomOut } from "../state/panes";
import { ToolButton } from "./icon";

export const Controls = () => (
  <div class="controls" role="toolbar" aria-label="View">
    <ToolButton icon="plus" label="Zoom in" keys="+" onClick={zoomIn} />
    <ToolButton icon="minus" label="Zoom out" keys="-" onClick={zoomOut} />
    <ToolButton icon="fit" label="Fit all" keys="0" onClick={fitAll} />
    <ToolButton icon="target" label="Zoom to the selected node or the task in progress" keys="g" onClick={zoomToNode} />
    <ToolButton icon="expand" label="Expand all" keys="e" onClick={expandAll} />
    <ToolButton icon="collapse" label="Collapse all" keys="c" onClick={collapseAll} />
  </div>
);
