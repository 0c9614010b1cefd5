// How wide text is, and how it breaks into lines. Widths are summed up letter by letter: measuring 5,000 labels whole
// took a tenth of a second.

export type Measure = (text: string) => number;

/** Measures in a font by asking the browser once for each letter. */
export function measured(font: string): Measure {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = font;
  const letters = new Map<string, number>();
  return (text) => {
    let width = 0;
    for (const letter of text) {
      let known = letters.get(letter);
      if (known === undefined) letters.set(letter, (known = context.measureText(letter).width));
      width += known;
    }
    return width;
  };
}

/** At most so many lines of at most that width; what does not fit ends with an ellipsis. */
export function wrapped(text: string, width: number, most: number, measure: Measure): string[] {
  const words = text.split(/\s+/u).filter(Boolean);
  const lines: string[] = [];
  let line = "";
  for (let place = 0; place < words.length; place++) {
    const longer = line ? `${line} ${words[place]!}` : words[place]!;
    if (measure(longer) <= width) {
      line = longer;
      continue;
    }
    if (lines.length === most - 1) return [...lines, shortened([line, ...words.slice(place)].join(" ").trim(), width, measure)];
    if (line) {
      lines.push(line);
      line = "";
      place--;
    } else {
      const head = fitting(words[place]!, width, measure);
      lines.push(words[place]!.slice(0, head));
      words[place] = words[place]!.slice(head);
      place--;
    }
  }
  return line ? [...lines, line] : lines;
}

export function shortened(text: string, width: number, measure: Measure): string {
  if (measure(text) <= width) return text;
  return `${text.slice(0, fitting(text, width - measure("…"), measure)).trimEnd()}…`;
}

// How many letters fit: at least one, so that a line always goes on, and no half of a pair.
function fitting(text: string, width: number, measure: Measure): number {
  let used = 0;
  let end = 0;
  for (const letter of text) {
    used += measure(letter);
    if (used > width && end) break;
    end += letter.length;
  }
  return end;
}
