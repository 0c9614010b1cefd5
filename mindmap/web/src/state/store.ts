// One value, and who wants to know when it changes.

import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

export class Store<State extends object> {
  private readonly listeners = new Set<() => void>();

  constructor(private state: State) {}

  get(): State {
    return this.state;
  }

  set(changes: Partial<State>): void {
    this.state = { ...this.state, ...changes };
    for (const listener of [...this.listeners]) listener();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** What is chosen from the store; the component is drawn again when that is another value. */
export function useChosen<State extends object, Chosen>(
  store: Store<State>,
  choose: (state: State) => Chosen,
): Chosen {
  const [, again] = useReducer((count: number) => count + 1, 0);
  const chosen = choose(store.get());
  const last = useRef({ chosen, choose });
  last.current = { chosen, choose };
  useLayoutEffect(() => {
    const check = (): void => {
      if (!Object.is(last.current.choose(store.get()), last.current.chosen)) again(undefined as never);
    };
    check(); // what changed between drawing and subscribing
    return store.subscribe(check);
  }, [store]);
  return chosen;
}
