// What stands where there is nothing to show, and why.

import type { ComponentChildren } from "preact";
import type { Failure } from "../api/client";
import { refresh } from "../state/actions";

export const Loading = ({ what }: { what: string }) => (
  <div class="state" role="status">
    <span class="spinner" aria-hidden="true" />
    <p>Reading {what}…</p>
  </div>
);

export const Empty = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="state empty">
    <img src="/logo.png" alt="" width="56" height="56" />
    <h2>{title}</h2>
    {children}
  </div>
);

export function Problem({ failure }: { failure: Failure }) {
  const title =
    failure.status === 404 ? "This map is not here" : failure.status === 0 ? "The viewer is offline" : "This cannot be shown";
  return (
    <div class="state problem" role="alert">
      <h2>{title}</h2>
      <p>{failure.message}</p>
      {failure.hint && <p class="muted">{failure.hint}</p>}
      <p class="row">
        <button type="button" class="button" onClick={() => void refresh()}>
          Try again
        </button>
        <a class="button" href="#/">
          All sessions
        </a>
      </p>
    </div>
  );
}
