// Elements of a drawing.

const NAMESPACE = "http://www.w3.org/2000/svg";

export type Attributes = Record<string, string | number | undefined>;

export function element<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): SVGElementTagNameMap[Name] {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, String(value));
  made.append(...children.filter((child) => child !== null));
  return made;
}
