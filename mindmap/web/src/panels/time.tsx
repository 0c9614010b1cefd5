// How long ago something was, kept true while it is looked at.

import { useEffect, useState } from "preact/hooks";
import { ago, exact } from "./moments";

const AGAIN_MS = 20_000;

export function Time({ at }: { at: string }) {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => again((count) => count + 1), AGAIN_MS);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <time dateTime={at} title={exact(at)}>
      {ago(at)}
    </time>
  );
}
