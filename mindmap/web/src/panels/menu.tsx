// A button that opens a box below it, closed by Escape and by whatever happens outside.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ToolIcon } from "./icon";

export function Menu({ icon, label, badge, text, children }: { icon: string; label: string; badge?: number; text?: string; children: (close: () => void) => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event): void => {
      if (!whole.current!.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);
  return (
    <div
      ref={whole}
      class="menu"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !open) return;
        event.stopPropagation();
        close();
      }}
    >
      <button
        ref={button}
        type="button"
        class={`tool-button${text ? " with-text" : ""}`}
        aria-expanded={open}
        aria-label={badge ? `${label}, ${badge} set` : label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        <ToolIcon name={icon} />
        {text && <span>{text}</span>}
        {!!badge && <span class="badge">{badge}</span>}
      </button>
      {open && <div class="menu-box">{children(close)}</div>}
    </div>
  );
}
