// Client of the viewer's event stream. It reconnects after sleep and after server restarts.

export type ServerEvent = { type: "connected" } | { type: "mindmap_updated"; id: string };

// EventSource never retries after an HTTP error, but a restarting viewer may be back soon.
const RECONNECT_MS = 2_000;

/** Subscribes to the stream; the returned function ends it. `onDisconnect` is called whenever the connection is lost. */
export function subscribe(onEvent: (event: ServerEvent) => void, onDisconnect: () => void): () => void {
  let source: EventSource | null = null;
  let timer = 0;
  const openStream = (): void => {
    window.clearTimeout(timer);
    source?.close();
    source = new EventSource("/events");
    source.onmessage = ({ data }) => dispatch(String(data));
    for (const type of ["connected", "mindmap_updated"]) {
      source.addEventListener(type, (event) => dispatch(String((event as MessageEvent).data)));
    }
    source.onerror = () => {
      onDisconnect();
      if (source?.readyState === EventSource.CLOSED) timer = window.setTimeout(openStream, RECONNECT_MS);
    };
  };
  const dispatch = (data: string): void => {
    const event = parseEvent(data);
    if (event) onEvent(event);
  };
  const reopenIfVisible = (): void => {
    if (document.visibilityState === "visible" && source?.readyState !== EventSource.OPEN) openStream();
  };
  document.addEventListener("visibilitychange", reopenIfVisible);
  window.addEventListener("online", openStream);
  openStream();
  return () => {
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", reopenIfVisible);
    window.removeEventListener("online", openStream);
    source?.close();
  };
}

function parseEvent(data: string): ServerEvent | null {
  try {
    const event = JSON.parse(data) as { type: unknown; id?: unknown } | null;
    if (event?.type === "connected") return { type: "connected" };
    return event?.type === "mindmap_updated" && typeof event.id === "string" ? { type: "mindmap_updated", id: event.id } : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null; // text that is not JSON is ignored, like events of later versions
    throw error;
  }
}
