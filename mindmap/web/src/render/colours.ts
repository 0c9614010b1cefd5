// Colours of the style sheet, for canvases and exported files.

import type { MapNode } from "../api/types";
import { isModelNode, getStatus } from "../model/tree";

let colourByProperty = new Map<string, string>();

/** Returns the current value of a custom property, in the light or dark theme. */
export function resolveColour(name: string): string {
  let value = colourByProperty.get(name);
  if (value === undefined) colourByProperty.set(name, (value = computeColour(name)));
  return value;
}

function computeColour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

export function clearColourCache(): void {
  colourByProperty = new Map();
}

/** Returns the name of the CSS property with the colour of a node's status or type, for the minimap and the backdrop. */
export function getColourProperty(node: MapNode): string {
  const status = getStatus(node);
  return status ? `--mark-${status.replace(/_/gu, "-")}` : isModelNode(node) ? "--mark-model" : "--mark-plain";
}
