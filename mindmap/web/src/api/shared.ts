// One stream of events for all tabs of a browser: a browser has six connections for a server, and a stream takes one
// for as long as it is open. The tab that holds a lock leads: it listens and passes on what it hears. When it goes, the
// browser gives the lock to the next; when it stands still, frozen by the browser or busy, it keeps the lock, and a tab
// that somebody sees takes it away. Where there are no locks every tab listens for itself.

import { type Told, listen } from "./events";

const NAME = "mindmap-events";

// How often a tab that follows asks whether its leader still answers, and how long it waits. Asked and answered by
// messages, for the browser slows down the timers of tabs that nobody sees. A lead taken in vain costs one request.
const ASK_MS = 3_000;
const ANSWER_MS = 2_000;

type Heard = Told | { type: "lost" };
type Passed = Heard | { type: "hello" } | { type: "there?" } | { type: "here" };

/** Listens as long as the page is open; `lost` is called whenever the connection is. */
export function listenTogether(heard: (told: Told) => void, lost: () => void): void {
  const alone = (): void => void listen(heard, lost);
  const together = (): void => void new Tab((told) => (told.type === "lost" ? lost() : heard(told))).begin();
  if (!("locks" in navigator) || !("BroadcastChannel" in window)) alone();
  else void navigator.locks.query().then(together, alone); // a browser that may keep nothing for a site forbids them
}

/** One tab among those of a browser: it leads or follows. */
class Tab {
  private readonly others = new BroadcastChannel(NAME);
  /** Ends the stream of the tab that leads. */
  private stop: (() => void) | null = null;
  /** How the stream stands, for tabs that come later. */
  private standing: Heard | null = null;
  /** Runs while the leader owes an answer. */
  private patience = 0;

  constructor(private readonly tell: (told: Heard) => void) {}

  /** Follows, and leads whenever its turn comes. */
  async begin(): Promise<never> {
    this.others.onmessage = ({ data }: MessageEvent<Passed>) => (this.stop ? this.answer(data) : this.follow(data));
    this.say({ type: "hello" });
    window.setInterval(() => this.ask(), ASK_MS);
    document.addEventListener("visibilitychange", () => this.ask());
    for (;;) await this.hold({});
  }

  /** Waits for the lock and leads, until another tab takes the lock away. */
  private async hold(options: LockOptions): Promise<void> {
    let stop: (() => void) | null = null;
    try {
      await navigator.locks.request(NAME, options, () => {
        stop = this.lead();
        return new Promise<never>(() => undefined);
      });
    } catch (error) {
      if (!stop) throw error;
      this.leave(stop);
    }
  }

  private lead(): () => void {
    this.answered();
    this.stop?.();
    this.standing = null;
    this.say({ type: "here" });
    return (this.stop = listen(
      (told) => this.pass(told),
      () => this.pass({ type: "lost" }),
    ));
  }

  private leave(stop: () => void): void {
    stop();
    if (this.stop === stop) this.stop = null;
    this.say({ type: "hello" }); // what this tab passed on last may not be so any more
  }

  private pass(told: Heard): void {
    if (told.type !== "mindmap_updated") this.standing = told;
    this.say(told);
    this.tell(told);
  }

  private answer(said: Passed): void {
    if (said.type === "there?") this.say({ type: "here" });
    // Those who know already look once more.
    if (said.type === "hello" && this.standing) this.say(this.standing);
  }

  private follow(said: Passed): void {
    if (said.type === "hello" || said.type === "there?") return;
    this.answered();
    if (said.type !== "here") this.tell(said);
  }

  private ask(): void {
    if (this.stop || document.hidden) return;
    this.say({ type: "there?" });
    this.patience ||= window.setTimeout(() => this.seize(), ANSWER_MS);
  }

  private answered(): void {
    window.clearTimeout(this.patience);
    this.patience = 0;
  }

  private seize(): void {
    this.patience = 0;
    if (!this.stop) void this.hold({ steal: true });
  }

  private say(said: Passed): void {
    this.others.postMessage(said);
  }
}
