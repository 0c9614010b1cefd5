// Observable state container.

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

/** Hook that returns a selected value and re-renders the component when it changes. */
export function useSelector<State extends object, Selected>(
  store: Store<State>,
  selector: (state: State) => Selected,
): Selected {
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  const selected = selector(store.get());
  const last = useRef({ selected, selector });
  last.current = { selected, selector };
  useLayoutEffect(() => {
    const check = (): void => {
      if (!Object.is(last.current.selector(store.get()), last.current.selected)) rerender(undefined as never);
    };
    check(); // changes between rendering and subscribing
    return store.subscribe(check);
  }, [store]);
  return selected;
}
