// SVG elements, outlines of cards, and icons.

const NAMESPACE = "http://www.w3.org/2000/svg";

type Attributes = Record<string, string | number | undefined>;

export function createElement<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): SVGElementTagNameMap[Name] {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, String(value));
  element.append(...children.filter((child) => child !== null));
  return element;
}

// ---- outlines of cards, as path data. Plans and tasks have a plain box, every other node type has a shape of its own.

type Shape = (width: number, height: number) => string;

const createBoxShape =
  (radius: number): Shape =>
  (w, h) => {
    const r = Math.min(radius, h / 2);
    return `M${r} 0H${w - r}A${r} ${r} 0 0 1 ${w} ${r}V${h - r}A${r} ${r} 0 0 1 ${w - r} ${h}H${r}A${r} ${r} 0 0 1 0 ${h - r}V${r}A${r} ${r} 0 0 1 ${r} 0z`;
  };

const SHAPES: Record<string, Shape> = {
  root: createBoxShape(14),
  code: createBoxShape(2),
  // With the two lugs of UML components.
  component: (w, h) => `M0 0H${w}V${h}H0V${h / 2 + 12}h-5v-8h5v-8h-5v-8h5z`,
  data_flow: (w, h) => `M0 0H${w - 10}L${w} ${h / 2}L${w - 10} ${h}H0L8 ${h / 2}z`,
  decision: (w, h) => `M10 0H${w - 10}L${w} ${h / 2}L${w - 10} ${h}H10L0 ${h / 2}z`,
  hypothesis: createBoxShape(20),
  risk: (w, h) => `M12 0H${w - 12}L${w} 12V${h}H0V12z`,
  note: (w, h) => `M0 0H${w}V${h - 12}L${w - 12} ${h}H0zM${w} ${h - 12}H${w - 12}V${h}`,
  file: (w, h) => `M0 0H${w - 12}L${w} 12V${h}H0zM${w - 12} 0V12H${w}`,
};

const PLAIN_BOX = createBoxShape(7);

/** Returns the outline of a card of a node type. */
export const buildOutline = (type: string, width: number, height: number): string =>
  (SHAPES[type] ?? PLAIN_BOX)(width, height);

// ---- icons. Types and statuses differ in shape, not only in colour.

/** Icon as SVG path data in a 16 x 16 viewBox. */
export interface Icon {
  /** Path that is stroked. */
  line?: string;
  /** Path that is filled. */
  solid?: string;
}

const CIRCLE = "M8 1.75a6.25 6.25 0 1 1 0 12.5a6.25 6.25 0 1 1 0-12.5z";

const STATUS_ICONS: Record<string, Icon> = {
  planned: { line: CIRCLE },
  in_progress: { line: CIRCLE, solid: "M8 4a4 4 0 0 1 0 8z" },
  completed: { solid: "M8 1a7 7 0 1 1 0 14a7 7 0 1 1 0-14zM11.6 5.3l-4.4 4.6l-2.6-2.4l-1 1.1l3.7 3.4l5.4-5.6z" },
  blocked: { line: "M5.3 1.75h5.4l3.55 3.55v5.4l-3.55 3.55h-5.4l-3.55-3.55v-5.4zM5 8h6" },
};

const TYPE_ICONS: Record<string, Icon> = {
  root: { line: "M3.5 3.5h3v3h-3zM10 8h3v3h-3zM6.5 5h1.5v8h2M8 9.500h2" },
  component: { line: "M4.500 2.250h9v11.500h-9zM2.500 4.750h4v2.250h-4zM2.500 9h4v2.250h-4z" },
  data_flow: { line: "M1.500 5h11M9.750 2l3.250 3l-3.250 3M14.500 11h-11M6.250 8l-3.250 3l3.250 3" },
  decision: { line: "M8 1.500l6.500 6.500l-6.500 6.500l-6.500-6.500z" },
  hypothesis: { line: "M5 5.500a3 3 0 1 1 4.600 2.500c-1 .7-1.600 1.200-1.600 2.500", solid: "M7 12.500h2v2h-2z" },
  risk: { line: "M8 2l6.500 11.750h-13zM8 6.500v3.500", solid: "M7.250 11h1.500v1.500h-1.500z" },
  note: { line: "M3 4h10M3 8h10M3 12h6" },
  file: { line: "M3.500 1.750h6l3 3v9.500h-9zM9.500 1.750v3h3" },
  code: { line: "M5.500 4l-4 4l4 4M10.500 4l4 4l-4 4" },
  plan: { line: "M2.500 3.500h2v2h-2zM2.500 10.500h2v2h-2zM7.500 4.500h6M7.500 11.500h6" },
};

export const TOOL_ICONS: Record<string, Icon> = {
  search: { line: "M7 2.250a4.750 4.750 0 1 1 0 9.500a4.750 4.750 0 1 1 0-9.500zM10.500 10.500l3.500 3.500" },
  filter: { line: "M2 3.500h12l-4.500 5.500v4.500l-3-1.500v-3z" },
  sync: { line: "M13.500 6.500a5.750 5.750 0 0 0-10.500-1.500M2.500 2.500v3h3M2.500 9.500a5.750 5.750 0 0 0 10.500 1.500M13.500 13.500v-3h-3" },
  download: { line: "M8 2v8M4.750 7l3.250 3.250l3.250-3.250M2.500 13.500h11" },
  sun: { line: "M8 5a3 3 0 1 1 0 6a3 3 0 1 1 0-6zM8 1v1.500M8 13.500v1.500M1 8h1.500M13.500 8h1.500M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1" },
  moon: { line: "M13.500 9.500a6 6 0 0 1-7-7a6 6 0 1 0 7 7z" },
  system: { line: "M8 1.750a6.250 6.250 0 1 1 0 12.500z", solid: "M8 1.750a6.250 6.250 0 0 0 0 12.500z" },
  help: { line: `${CIRCLE}M6.250 6.250a1.750 1.750 0 1 1 2.600 1.500c-.6.35-.85.7-.85 1.500`, solid: "M7.250 10.750h1.500v1.400h-1.500z" },
  fit: { line: "M2 5.500v-3.500h3.500M10.500 2h3.500v3.500M14 10.500v3.500h-3.500M5.500 14h-3.500v-3.500" },
  plus: { line: "M8 3v10M3 8h10" },
  minus: { line: "M3 8h10" },
  more: { solid: "M8 2a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3zM8 6.500a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3zM8 11a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3z" },
  left: { line: "M10 3l-5 5l5 5" },
  right: { line: "M6 3l5 5l-5 5" },
  down: { line: "M3 6l5 5l5-5" },
  close: { line: "M3.500 3.500l9 9M12.500 3.500l-9 9" },
  panel: { line: "M1.750 2.750h12.500v10.500h-12.500zM10 2.750v10.500" },
  target: { line: "M8 3.500a4.500 4.500 0 1 1 0 9a4.500 4.500 0 1 1 0-9zM8 1v3M8 12v3M1 8h3M12 8h3" },
  expand: { line: "M4 6l4-4l4 4M4 10l4 4l4-4" },
  collapse: { line: "M4 2l4 4l4-4M4 14l4-4l4 4" },
  pencil: { line: "M3 13l.700-3l7.300-7.300l2.300 2.300l-7.300 7.300zM9.500 4.200l2.300 2.300" },
  link: { line: "M2.500 12c1-5 4-7 10-7M9 2l3.500 3l-3.500 3" },
  copy: { line: "M5.500 5.500h8v8h-8zM3 10.500h-.5v-8h8v.5" },
  follow: { line: "M1.500 8c2-3.500 4-5 6.500-5s4.500 1.500 6.500 5c-2 3.500-4 5-6.500 5s-4.500-1.500-6.500-5z", solid: "M8 5.750a2.250 2.250 0 1 1 0 4.500a2.250 2.250 0 1 1 0-4.500z" },
};

/** Returns the icon of a node's status; without a status, the icon of the type; for an unknown type, the icon of notes. */
export const getIcon = (type: string, status: string | null): Icon =>
  (status === null ? undefined : STATUS_ICONS[status]) ?? TYPE_ICONS[type] ?? TYPE_ICONS["note"]!;
