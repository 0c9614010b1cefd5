// Help dialog with keyboard shortcuts and legend.

import { useLayoutEffect, useRef } from "preact/hooks";
import { CHANGE_KINDS, STATUSES, TYPES } from "../model/vocabulary";
import { buildOutline } from "../render/svg";
import { app } from "../state/app";
import { KEY_BINDINGS } from "../state/keys";
import { ChangeGlyph, NodeIcon, ToolButton } from "./widgets";

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current!.showModal(), []); // before another key is handled
  const close = (): void => app.set({ dialog: null });
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={close}
      onClick={(event) => event.target === dialog.current && dialog.current!.close()}
    >
      <div class="help-body">
        <header>
          <h2 id="help-title">Keyboard shortcuts and legend</h2>
          <ToolButton icon="close" label="Close" onClick={() => dialog.current!.close()} />
        </header>
        <div class="help-columns">
          <section>
            <h3>Keys</h3>
            <dl class="keys">
              {KEY_BINDINGS.map(({ labels, description }) => (
                <div key={description}>
                  <dt>
                    {labels.map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{description}</dd>
                </div>
              ))}
            </dl>
            <p class="muted">
              Search accepts words and <code>type:risk</code>, <code>status:blocked</code>, <code>file:src/</code>.
            </p>
          </section>
          <section>
            <h3>Nodes</h3>
            <ul class="legend">
              {Object.entries(TYPES).map(([type, name]) => (
                <li key={type}>
                  <svg class={`sample card t-${type}`} viewBox="-7 -2 54 28" aria-hidden="true">
                    <path class="shape" d={buildOutline(type, 40, 24)} />
                  </svg>
                  {type !== "task" && type !== "plan" && <NodeIcon type={type} status={null} />}
                  {name}
                </li>
              ))}
            </ul>
            <h3>Status</h3>
            <ul class="legend">
              {Object.entries(STATUSES).map(([status, name]) => (
                <li key={status}>
                  <NodeIcon type="task" status={status} />
                  {name}
                </li>
              ))}
            </ul>
            <h3>Changes</h3>
            <ul class="legend">
              {Object.entries(CHANGE_KINDS).map(([kind, [, name]]) => (
                <li key={kind}>
                  <ChangeGlyph kind={kind} />
                  {name}
                </li>
              ))}
            </ul>
            <h3>Links</h3>
            <ul class="legend wide">
              <li>
                <span class="link-style solid" aria-hidden="true" />
                Solid: a dependency
              </li>
              <li>
                <span class="link-style dashed" aria-hidden="true" />
                Dashed: a hypothesis, or a soft dependency
              </li>
              <li>
                <span class="link-style animated" aria-hidden="true" />
                Animated: a live stream, events
              </li>
              <li>
                <span class="link-count" aria-hidden="true">
                  ↔ 2
                </span>
                Links to the other pane: hover or select the card
              </li>
            </ul>
          </section>
        </div>
      </div>
    </dialog>
  );
}
