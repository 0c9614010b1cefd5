// One stream of events for all tabs of a browser: a browser has six connections for a server, and a stream takes one
// for as long as it is open. The tab that holds a lock listens and passes on what it hears; when it goes, the browser
// gives the lock to the next. Where there are no locks every tab listens for itself.

import { type Told, listen } from "./events";

const NAME = "mindmap-events";

type Passed = Told | { type: "lost" } | { type: "hello" };

/** Listens as long as the page is open; `lost` is called whenever the connection is. */
export function listenTogether(heard: (told: Told) => void, lost: () => void): void {
  if (!("locks" in navigator) || !("BroadcastChannel" in window)) {
    listen(heard, lost);
    return;
  }
  const others = new BroadcastChannel(NAME);
  const tell = (told: Told | { type: "lost" }): void => (told.type === "lost" ? lost() : heard(told));
  others.onmessage = ({ data }: MessageEvent<Passed>) => data.type !== "hello" && tell(data);
  others.postMessage({ type: "hello" } satisfies Passed);
  void navigator.locks.request(NAME, () => lead(others, tell));
}

/** Listens for all, and never ends: the lock is this tab's until it is closed. */
function lead(others: BroadcastChannel, tell: (told: Told | { type: "lost" }) => void): Promise<never> {
  let last: Told | { type: "lost" } | null = null;
  const pass = (told: Told | { type: "lost" }): void => {
    if (told.type !== "mindmap_updated") last = told;
    others.postMessage(told satisfies Passed);
    tell(told);
  };
  // One that came later is told how things stand; those who know already look once more.
  others.onmessage = ({ data }: MessageEvent<Passed>) => data.type === "hello" && last && others.postMessage(last);
  listen(pass, () => pass({ type: "lost" }));
  return new Promise(() => undefined);
}
