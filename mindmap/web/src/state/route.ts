// Route in the URL fragment: #/ for the sessions, #/map/ID/node/NODE?view=plan for a node of a map in a view.

export type View = "map" | "plan" | "model" | "both";
export const VIEWS: readonly View[] = ["both", "map", "plan", "model"];

export interface Route {
  map: string | null;
  node: string | null;
  /** Null if the URL names no view; the page then shows a view that suits the map and the window. */
  view: View | null;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/u, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodePart);
  const view = new URLSearchParams(query).get("view") as View | null;
  return {
    map: parts[0] === "map" && parts[1] ? parts[1] : null,
    node: parts[2] === "node" && parts[3] ? parts[3] : null,
    view: view && VIEWS.includes(view) ? view : null,
  };
}

export function formatRoute({ map, node, view }: Route): string {
  if (!map) return "#/";
  const nodePart = node ? `/node/${encodeURIComponent(node)}` : "";
  return `#/map/${encodeURIComponent(map)}${nodePart}${view ? `?view=${view}` : ""}`;
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}
