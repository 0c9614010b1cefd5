// Relative time that updates itself.

import { useEffect, useState } from "preact/hooks";

const UPDATE_MS = 20_000;

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

/** Formats a timestamp such as `3 minutes ago`; an invalid one is returned unchanged. */
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
