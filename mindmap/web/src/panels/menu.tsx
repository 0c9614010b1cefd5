// Button with a popup that closes on Escape and on focus or click outside.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ToolIcon } from "./icon";

export function Menu({ icon, label, badge, text, children }: { icon: string; label: string; badge?: number; text?: string; children: (close: () => void) => ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    const closeIfOutside = (event: Event): void => {
      if (!root.current!.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", closeIfOutside);
    document.addEventListener("focusin", closeIfOutside);
    return () => {
      document.removeEventListener("pointerdown", closeIfOutside);
      document.removeEventListener("focusin", closeIfOutside);
    };
  }, [isOpen]);
  return (
    <div
      ref={root}
      class="menu"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        event.stopPropagation();
        close();
      }}
    >
      <button
        ref={button}
        type="button"
        class={`tool-button${text ? " with-text" : ""}`}
        aria-expanded={isOpen}
        aria-label={badge ? `${label}, ${badge} set` : label}
        title={label}
        onClick={() => setOpen(!isOpen)}
      >
        <ToolIcon name={icon} />
        {text && <span>{text}</span>}
        {!!badge && <span class="badge">{badge}</span>}
      </button>
      {isOpen && <div class="menu-box">{children(close)}</div>}
    </div>
  );
}
