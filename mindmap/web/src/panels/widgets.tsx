// Icons, buttons, menus, progress bars and times, which several panels use.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { MapNode } from "../api/types";
import { type Progress, computePercent } from "../model/progress";
import { getStatus } from "../model/tree";
import { getGlyphAndLabel } from "../model/vocabulary";
import { type Icon, getIcon, TOOL_ICONS } from "../render/svg";
import { select } from "../state/actions";
import { app } from "../state/app";

const IconSvg = ({ icon, name }: { icon: Icon; name: string }) => (
  <svg class={`glyph ${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    {icon.line && <path class="line" d={icon.line} />}
    {icon.solid && <path class="solid" d={icon.solid} />}
  </svg>
);

export const ToolIcon = ({ name }: { name: string }) => <IconSvg icon={TOOL_ICONS[name]!} name="tool" />;

export const NodeIcon = ({ type, status }: { type: string; status: string | null }) => (
  <IconSvg icon={getIcon(type, status)} name={`mark t-${type}${status ? ` s-${status}` : ""}`} />
);

export function ChangeGlyph({ kind }: { kind: string }) {
  const [glyph, label] = getGlyphAndLabel(kind);
  return (
    <span class={`change k-${kind}`} title={label} role="img" aria-label={label}>
      {glyph}
    </span>
  );
}

export function ToolButton({
  icon,
  label,
  keys,
  pressed,
  disabled,
  onClick,
  text,
}: {
  icon: string;
  label: string;
  keys?: string;
  pressed?: boolean;
  disabled?: boolean;
  onClick: () => void;
  text?: string;
}) {
  return (
    <button
      type="button"
      class={`tool-button${text ? " with-text" : ""}`}
      title={keys ? `${label} (${keys})` : label}
      aria-label={label}
      aria-pressed={pressed}
      aria-keyshortcuts={keys}
      disabled={disabled ?? false}
      onClick={onClick}
    >
      <ToolIcon name={icon} />
      {text && <span>{text}</span>}
    </button>
  );
}

export function ProgressBar({ done, total, label }: { done: number; total: number; label?: string }) {
  const percent = computePercent({ done, total });
  return (
    <svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label ?? `${done} of ${total} tasks done`}>
      <rect class="bar" width="100" height="6" rx="3" />
      {percent > 0 && <rect class="filled" width={percent} height="6" rx="3" />}
    </svg>
  );
}

/** Progress bar with the numbers of tasks by status; nothing without tasks. */
export function TaskProgress({ progress }: { progress: Progress | undefined }) {
  if (!progress?.total) return null;
  const { done, active, blocked, total } = progress;
  return (
    <div class="task-progress">
      <ProgressBar done={done} total={total} />
      <p>
        <strong>
          {done} of {total}
        </strong>{" "}
        tasks done
        {active > 0 && `, ${active} in progress`}
        {blocked > 0 && <span class="bad">, {blocked} blocked</span>}
      </p>
    </div>
  );
}

export function NodeButton({ node }: { node: MapNode }) {
  return (
    <button
      type="button"
      class="node-button"
      onClick={() => select(node.id)}
      onPointerEnter={() => app.set({ hovered: node.id })}
      onPointerLeave={() => app.set({ hovered: null })}
    >
      <NodeIcon type={node.type} status={getStatus(node)} />
      <span>{node.label}</span>
    </button>
  );
}

// ---- menu

/** Button with a popup that closes on Escape and on focus or a click outside. `badge`: number on the button. */
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

// ---- times

const UPDATE_MS = 20_000;

/** Relative time, such as `3 minutes ago`, that updates itself. */
export function Time({ at }: { at: string }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((count) => count + 1), UPDATE_MS);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <time dateTime={at} title={formatDate(at)}>
      {formatAge(at)}
    </time>
  );
}

// Units of time, each with its number in the next larger one.
const UNITS: [number, string][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30, "day"],
  [12, "month"],
  [Infinity, "year"],
];

/** Formats the age of a timestamp, such as `3 minutes ago`; returns an invalid timestamp unchanged. */
function formatAge(timestamp: string, now = Date.now()): string {
  const then = Date.parse(timestamp);
  if (Number.isNaN(then)) return timestamp;
  let amount = Math.max(0, (now - then) / 1000);
  if (amount < 10) return "just now";
  for (const [size, unit] of UNITS) {
    if (amount < size) {
      const count = Math.floor(amount);
      return `${count} ${unit}${count === 1 ? "" : "s"} ago`;
    }
    amount /= size;
  }
  return timestamp;
}

// Created once: `toLocaleString` would create a format for each date, which takes most of the time for a long log.
const DATE_FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function formatDate(timestamp: string): string {
  const then = new Date(timestamp);
  return Number.isNaN(then.getTime()) ? timestamp : DATE_FORMAT.format(then);
}
