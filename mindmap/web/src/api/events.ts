// The server's events: connected, and which map changed. Comes back by itself after sleep and restarts.

export type Told = { type: "connected" } | { type: "mindmap_updated"; id: string };

// A browser gives up on a stream for good when a server answers it with an error; ours may be about to come back.
const AGAIN_MS = 2_000;

/** Listens until stopped; `lost` is called whenever the connection is. */
export function listen(heard: (told: Told) => void, lost: () => void): () => void {
  let source: EventSource | null = null;
  let timer = 0;
  const open = (): void => {
    window.clearTimeout(timer);
    source?.close();
    source = new EventSource("/events");
    source.onmessage = ({ data }) => tell(String(data));
    for (const type of ["connected", "mindmap_updated"]) {
      source.addEventListener(type, (event) => tell(String((event as MessageEvent).data)));
    }
    source.onerror = () => {
      lost();
      if (source?.readyState === EventSource.CLOSED) timer = window.setTimeout(open, AGAIN_MS);
    };
  };
  const tell = (data: string): void => {
    const told = parsed(data);
    if (told) heard(told);
  };
  const woken = (): void => {
    if (document.visibilityState === "visible" && source?.readyState !== EventSource.OPEN) open();
  };
  document.addEventListener("visibilitychange", woken);
  window.addEventListener("online", open);
  open();
  return () => {
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", woken);
    window.removeEventListener("online", open);
    source?.close();
  };
}

function parsed(data: string): Told | null {
  try {
    const { type, id } = JSON.parse(data) as { type?: unknown; id?: unknown };
    if (type === "connected") return { type };
    if (type === "mindmap_updated" && typeof id === "string") return { type, id };
  } catch {
    // what a later version may say
  }
  return null;
}
