// Event stream of the viewer. All tabs of a browser share one stream, because a browser opens at most six connections to a
// server. The tab that holds a Web Lock leads: it subscribes and broadcasts the events. When the leader closes, the browser
// gives the lock to another tab. A frozen or busy leader keeps the lock, so a visible tab steals it. In a browser without
// Web Locks every tab subscribes itself.

// ---- stream of one tab; it reconnects after sleep and after server restarts

export type ServerEvent = { type: "connected" } | { type: "mindmap_updated"; id: string };

// EventSource never retries after an HTTP error, but a restarting viewer may be back soon.
const RECONNECT_MS = 2_000;

/** Subscribes this tab to the stream; the returned function ends it. Calls `onDisconnect` whenever the connection is lost. */
function subscribe(onEvent: (event: ServerEvent) => void, onDisconnect: () => void): () => void {
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

// ---- stream that all tabs share

// Name of the lock and of the broadcast channel. Another message format needs another name.
const CHANNEL = "mindmap-event-stream";

// A visible follower pings the leader at this interval. The leader does not send heartbeats instead, because browsers slow
// down the timers of hidden tabs.
const PING_INTERVAL_MS = 3_000;
// A follower without an answer to a ping steals the lock after this time. An unnecessary steal costs one request.
const PING_TIMEOUT_MS = 2_000;

/** Event that a leader broadcasts. `lost`: the connection to the viewer is lost. */
type StreamEvent = ServerEvent | { type: "lost" };
/**
 * Message between tabs. A follower sends `join` to get the last state of the connection, and `ping`, which a leader
 * answers with `pong`.
 */
type TabMessage = StreamEvent | { type: "join" } | { type: "ping" } | { type: "pong" };

/** Subscribes for as long as the page is open. Calls `onDisconnect` whenever the connection is lost. */
export function subscribeShared(onEvent: (event: ServerEvent) => void, onDisconnect: () => void): void {
  const listenAlone = (): void => void subscribe(onEvent, onDisconnect);
  const listenShared = (): void => void new SharedStreamTab((event) => (event.type === "lost" ? onDisconnect() : onEvent(event))).start();
  if (!("locks" in navigator) || !("BroadcastChannel" in window)) listenAlone();
  // `query()` rejects if the user blocks site data; then this tab subscribes alone.
  else void navigator.locks.query().then(listenShared, listenAlone);
}

/** Tab that leads or follows the shared stream. */
class SharedStreamTab {
  private readonly channel = new BroadcastChannel(CHANNEL);
  /** Closes the leader's stream; null in followers. */
  private stopStream: (() => void) | null = null;
  /** The last `connected` or `lost` event, for tabs that join later; null if there was none. */
  private lastState: StreamEvent | null = null;
  /** Timer that runs while a ping is unanswered. */
  private pingTimer = 0;

  constructor(private readonly onEvent: (event: StreamEvent) => void) {}

  /** Follows the leader, and leads whenever the browser grants the lock. */
  async start(): Promise<never> {
    this.channel.onmessage = ({ data }: MessageEvent<TabMessage>) => (this.stopStream ? this.handleAsLeader(data) : this.handleAsFollower(data));
    this.send({ type: "join" });
    window.setInterval(() => this.pingLeader(), PING_INTERVAL_MS);
    document.addEventListener("visibilitychange", () => this.pingLeader());
    for (;;) await this.holdLock({});
  }

  /** Waits for the lock and leads until another tab steals it. */
  private async holdLock(options: LockOptions): Promise<void> {
    let stop: (() => void) | null = null;
    try {
      await navigator.locks.request(CHANNEL, options, () => {
        stop = this.startLeading();
        return new Promise<never>(() => undefined);
      });
    } catch (error) {
      if (!stop) throw error;
      this.stopLeading(stop); // another tab has stolen the lock
    }
  }

  private startLeading(): () => void {
    this.clearPing();
    this.stopStream?.();
    this.lastState = null;
    this.send({ type: "pong" });
    return (this.stopStream = subscribe(
      (event) => this.broadcastEvent(event),
      () => this.broadcastEvent({ type: "lost" }),
    ));
  }

  private stopLeading(stop: () => void): void {
    stop();
    if (this.stopStream === stop) this.stopStream = null;
    this.send({ type: "join" }); // the new leader answers with the current state
  }

  private broadcastEvent(event: StreamEvent): void {
    if (event.type !== "mindmap_updated") this.lastState = event;
    this.send(event);
    this.onEvent(event);
  }

  private handleAsLeader(message: TabMessage): void {
    if (message.type === "ping") this.send({ type: "pong" });
    // The answer reaches all followers, not only the new one. `connected` makes them reload once more, which is harmless.
    if (message.type === "join" && this.lastState) this.send(this.lastState);
  }

  private handleAsFollower(message: TabMessage): void {
    if (message.type === "join" || message.type === "ping") return;
    this.clearPing();
    if (message.type !== "pong") this.onEvent(message);
  }

  private pingLeader(): void {
    if (this.stopStream || document.hidden) return;
    this.send({ type: "ping" });
    this.pingTimer ||= window.setTimeout(() => this.takeLead(), PING_TIMEOUT_MS);
  }

  private clearPing(): void {
    window.clearTimeout(this.pingTimer);
    this.pingTimer = 0;
  }

  private takeLead(): void {
    this.pingTimer = 0;
    if (!this.stopStream) void this.holdLock({ steal: true });
  }

  private send(message: TabMessage): void {
    this.channel.postMessage(message);
  }
}
