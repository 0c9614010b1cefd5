declare module "d3-flextree" {
  export function flextree<Data>(options: {
    children: (data: Data) => Data[];
    nodeSize: (data: Data) => [number, number];
    spacing: (a: Data, b: Data) => number;
  }): (root: Data) => unknown; // writes the positions into the nodes, as `x` and `y`
}
