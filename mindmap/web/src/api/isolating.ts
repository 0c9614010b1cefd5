// Text that turns the direction of writing keeps that to itself: a label may hold the control characters for it, and
// none may turn round what stands beside the label.

const CONTROLS = /[\u202A-\u202E\u2066-\u2069]/u;
const [ISOLATE, END_ISOLATE, END_EMBEDDING] = ["\u2068", "\u2069", "\u202C"] as const;
// What people and agents write. Ids and paths are sent back as they came.
const WRITTEN = new Set(["label", "title", "message", "summary", "detail", "notes", "activeTask"]);

/** JSON whose texts are isolated where they have to be; hardly any is, and then nothing is looked at twice. */
export function parsed(text: string): unknown {
  if (!CONTROLS.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value: unknown) => (typeof value === "string" && WRITTEN.has(key) ? isolated(value) : value));
}

/** A text in an isolate of its own, with everything that it opens closed in it. */
export function isolated(text: string): string {
  if (!CONTROLS.test(text)) return text;
  const open: string[] = [];
  let inside = "";
  for (const letter of text) {
    if (letter === END_ISOLATE || letter === END_EMBEDDING) {
      if (open.at(-1) !== letter) continue;
      open.pop();
    } else if (CONTROLS.test(letter)) {
      open.push(letter < "\u2066" ? END_EMBEDDING : END_ISOLATE);
    }
    inside += letter;
  }
  return `${ISOLATE}${inside}${open.reverse().join("")}${END_ISOLATE}`;
}
