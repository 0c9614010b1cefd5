// Moments as people say them.

const STEPS: [number, string][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30, "day"],
  [12, "month"],
  [Infinity, "year"],
];

/** Such as `3 minutes ago`; what cannot be read as a moment is said as it stands. */
export function ago(moment: string, now = Date.now()): string {
  const then = Date.parse(moment);
  if (Number.isNaN(then)) return moment;
  let amount = Math.max(0, (now - then) / 1000);
  if (amount < 10) return "just now";
  for (const [size, unit] of STEPS) {
    if (amount < size) {
      const count = Math.floor(amount);
      return `${count} ${unit}${count === 1 ? "" : "s"} ago`;
    }
    amount /= size;
  }
  return moment;
}

export function exact(moment: string): string {
  const then = new Date(moment);
  return Number.isNaN(then.getTime()) ? moment : then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
