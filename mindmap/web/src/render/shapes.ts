// Outlines of cards as SVG path data: plans and tasks get a plain box, every other node type a shape of its own.

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

export const buildOutline = (type: string, width: number, height: number): string =>
  (SHAPES[type] ?? PLAIN_BOX)(width, height);
