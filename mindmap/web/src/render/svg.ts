// Creation of SVG elements.

const NAMESPACE = "http://www.w3.org/2000/svg";

export type Attributes = Record<string, string | number | undefined>;

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
