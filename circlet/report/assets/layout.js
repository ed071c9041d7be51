// Where the boxes of a graph lie: dagre for the operators and groups of one group, from the
// innermost outwards. It runs in a worker, and in the page where there is none.

const PADDING = 14;
const HEADER = 30;
const MANY = 40;

/**
 * Lays out a box whose children are laid out first.
 * A box is {id, width, height, children?, edges?}; edges are [from, to] between children.
 * Gives {id, width, height, children: [{..., x, y}], edges: [{from, to, points}]}, with x and y of
 * corners, counted from the box's own corner.
 */
export function layout(box) {
  if (!box.children) return box;
  const children = box.children.map(layout);
  const graph = new globalThis.dagre.graphlib.Graph();
  const ranker = children.length > MANY ? "tight-tree" : "network-simplex";
  graph.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 30, edgesep: 12, ranker });
  for (const { id, width, height } of children) graph.setNode(id, { width, height });
  for (const [from, to] of box.edges) graph.setEdge(from, to, {});
  globalThis.dagre.layout(graph);
  const top = box.id === "" ? PADDING : HEADER + PADDING / 2;
  const { width, height } = graph.graph();
  // Dagre makes room for boxes; lines go around them on both sides.
  let [left, right] = [0, width];
  for (const [from, to] of box.edges) {
    for (const { x } of graph.edge(from, to).points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
    }
  }
  const moved = ({ x, y }) => ({ x: x - left + PADDING, y: y + top });
  return {
    id: box.id,
    width: Math.max(right - left + 2 * PADDING, box.width),
    height: height + top + PADDING,
    children: children.map((child) => {
      const { x, y } = moved(graph.node(child.id));
      return { ...child, x: x - child.width / 2, y: y - child.height / 2 };
    }),
    edges: box.edges.map(([from, to]) => (
      { from, to, points: graph.edge(from, to).points.map(moved) })),
  };
}
