// Bidirectional control characters in texts of the server. In a label they must not change the direction of the text
// around it. In code they are shown as code points, because they can make the code look like other code.

const BIDI_CONTROLS = /[\u202A-\u202E\u2066-\u2069]/u;
const [ISOLATE, END_ISOLATE, END_EMBEDDING] = ["\u2068", "\u2069", "\u202C"] as const;
// Fields with free text. Ids and paths stay unchanged, because they are sent back to the server.
const TEXT_FIELDS = new Set(["label", "title", "message", "summary", "detail", "notes", "activeTask", "reason", "client", "text", "answer"]);

/** Parses JSON and isolates its free texts. The reviver, which visits every value, is used only if there are control characters. */
export function parseJsonAndIsolateTexts(text: string): unknown {
  if (!BIDI_CONTROLS.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value: unknown) => (typeof value === "string" && TEXT_FIELDS.has(key) ? isolateBidi(value) : value));
}

/**
 * Wraps a text in an isolate if it contains bidirectional control characters. Inside the isolate, every embedding and
 * isolate that the text opens is closed, and an end without a start is left out.
 */
export function isolateBidi(text: string): string {
  if (!BIDI_CONTROLS.test(text)) return text;
  const missingEnds: string[] = [];
  let content = "";
  for (const character of text) {
    if (character === END_ISOLATE || character === END_EMBEDDING) {
      if (missingEnds.at(-1) !== character) continue;
      missingEnds.pop();
    } else if (BIDI_CONTROLS.test(character)) {
      missingEnds.push(character < "\u2066" ? END_EMBEDDING : END_ISOLATE);
    }
    content += character;
  }
  return `${ISOLATE}${content}${missingEnds.reverse().join("")}${END_ISOLATE}`;
}

// Bidirectional controls and marks, and other characters that are not displayed. Joiners (U+200C, U+200D) and the
// variation selectors of emoji (U+FE00 to U+FE0F) are not among them.
const HIDDEN_CHARACTERS =
  /[\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/gu;

/** Replaces each character that is not displayed with its code point, such as `<U+202E>`. */
export const escapeHiddenCharacters = (text: string): string =>
  text.replace(HIDDEN_CHARACTERS, (character) => `<U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}>`);
