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
  const latest = useRef({ selected, selector });
  latest.current = { selected, selector };
  useLayoutEffect(() => {
    const rerenderIfChanged = (): void => {
      if (!Object.is(latest.current.selector(store.get()), latest.current.selected)) rerender(undefined as never);
    };
    rerenderIfChanged(); // changes between rendering and subscribing
    return store.subscribe(rerenderIfChanged);
  }, [store]);
  return selected;
}
