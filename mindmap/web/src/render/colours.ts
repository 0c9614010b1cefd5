// The colours of the style sheet where no style sheet reaches: on a canvas, in a file.

import type { MapNode } from "../api/types";
import { isModel } from "../model/tree";
import { statusOf } from "./card";

let known = new Map<string, string>();

/** What a custom property is now; light or dark is settled by the browser. */
export function colourOf(name: string): string {
  let value = known.get(name);
  if (value === undefined) known.set(name, (value = settled(name)));
  return value;
}

function settled(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

export function forgetColours(): void {
  known = new Map();
}

/** The property with the colour of a node from afar: how it stands, or what it is. */
export function markOf(node: MapNode): string {
  const status = statusOf(node);
  return status ? `--mark-${status.replace(/_/gu, "-")}` : isModel(node) ? "--mark-model" : "--mark-plain";
}
