// The address of what is shown: #/ for the sessions, #/map/ID/node/NID?view=plan for a node of a map in a view.

export type View = "map" | "plan" | "model" | "both";
export const VIEWS: readonly View[] = ["both", "map", "plan", "model"];

export interface Route {
  map: string | null;
  node: string | null;
  /** None where the address has none: what suits the map and the window is shown. */
  view: View | null;
}

export function parsed(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/u, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  const view = new URLSearchParams(query).get("view") as View | null;
  return {
    map: parts[0] === "map" && parts[1] ? parts[1] : null,
    node: parts[2] === "node" && parts[3] ? parts[3] : null,
    view: view && VIEWS.includes(view) ? view : null,
  };
}

export function written({ map, node, view }: Route): string {
  if (!map) return "#/";
  const at = node ? `/node/${encodeURIComponent(node)}` : "";
  return `#/map/${encodeURIComponent(map)}${at}${view ? `?view=${view}` : ""}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
