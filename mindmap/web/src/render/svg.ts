// Creation of SVG elements.

const NAMESPACE = "http://www.w3.org/2000/svg";

export type Attributes = Record<string, string | number | undefined>;

export function createElement<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): SVGElementTagNameMap[Name] {
  const created = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) created.setAttribute(key, String(value));
  created.append(...children.filter((child) => child !== null));
  return created;
}
