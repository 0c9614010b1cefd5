// The map from afar: cards as boxes merged into a few paths, and the names of the largest branches.

import type { Place } from "../layout/layout";
import { isModel } from "../model/tree";
import { shortened } from "../layout/text";
import { statusOf } from "./card";

// Browsers paint by tiles of 256 pixels, and each path anew for every tile that it reaches into.
const CELL = 400;
// So many pixels a branch takes before its name is worth the room.
const NAMED = { width: 64, height: 40, line: 18, most: 60 } as const;

/** Cards as paths, each with its class: merged where they are neighbours, so that no path is drawn where it is not. */
export function merged(places: Place[], faded: (id: string) => boolean, scale: number): { name: string; path: string }[] {
  const parts = new Map<string, { name: string; boxes: string[] }>();
  const cell = CELL / scale;
  for (const place of places) {
    const name = `${classOf(place)}${faded(place.branch.id) ? " faded" : ""}`;
    const key = `${name} ${Math.floor(place.x / cell)} ${Math.floor(place.y / cell)}`;
    let part = parts.get(key);
    if (!part) parts.set(key, (part = { name, boxes: [] }));
    part.boxes.push(`M${Math.round(place.x)} ${Math.round(place.y)}h${place.width}v${place.height}h-${place.width}z`);
  }
  return [...parts.values()].map(({ name, boxes }) => ({ name, path: boxes.join("") }));
}

function classOf({ branch: { node } }: Place): string {
  const status = statusOf(node);
  if (status) return `s-${status}`;
  return isModel(node) ? `t-${node.type}` : "plain";
}

export interface Name {
  text: string;
  x: number;
  y: number;
}

/** The names to show at a scale: of the branches largest on the screen, those that do not cover each other. */
export function names(places: Place[], scale: number, width: (text: string) => number): Name[] {
  const large = places
    .filter(({ branch, area }) => branch.children.length && area.width * scale > NAMED.width && area.height * scale > NAMED.height)
    .sort((one, other) => one.branch.depth - other.branch.depth || other.area.height - one.area.height);
  const chosen: (Name & { right: number })[] = [];
  for (const { branch, x, y, height, area } of large) {
    if (chosen.length >= NAMED.most) break;
    const text = branch.parent ? shortened(branch.node.label, area.width * scale * 0.8, width) : branch.node.label;
    const name = { text, x, y: y + height / 2, right: x + (width(text) + 16) / scale };
    const covered = chosen.some(
      (other) => name.x < other.right && other.x < name.right && Math.abs(other.y - name.y) * scale < NAMED.line,
    );
    if (!covered) chosen.push(name);
  }
  return chosen;
}
