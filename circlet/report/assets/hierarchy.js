// A graph as a tree of groups, and the part of it that is shown: groups are open or closed.

const FEW = 45;

/** The tree of a graph: nodes {id, label, parent, depth, children, operators, operator?, tensor?}. */
export function tree(graph) {
  const root = { id: "", label: "", parent: null, depth: 0, children: [], operators: [] };
  const nodes = new Map([["", root]]);
  const add = (parent, node) => {
    const made = { children: [], operators: [], ...node, parent, depth: parent.depth + 1 };
    parent.children.push(made);
    nodes.set(made.id, made);
    return made;
  };
  graph.inputs.forEach((tensor) => add(root, { id: `in ${tensor}`, tensor, label: "input" }));
  graph.operators.forEach((operator, index) => {
    let at = root;
    let id = "g";
    for (const label of operator.path) {
      id += `\u0001${label}`;
      at = nodes.get(id) ?? add(at, { id, label });
    }
    add(at, { id: `op ${index}`, operator: index, label: operator.kind });
    for (; at; at = at.parent) at.operators.push(index);
  });
  graph.outputs.forEach((tensor) => add(root, { id: `out ${tensor}`, tensor, label: "output" }));
  return { root, nodes };
}

/** Pairs of ids, [from, to, tensor], between operators, inputs and outputs. */
export function links(graph) {
  const found = [];
  const from = (tensor) => {
    if (graph.producer.has(tensor)) return `op ${graph.producer.get(tensor)}`;
    return graph.inputs.includes(tensor) ? `in ${tensor}` : null;
  };
  for (const [tensor, readers] of graph.readers) {
    const source = from(tensor);
    if (source) for (const reader of readers) found.push([source, `op ${reader}`, tensor]);
  }
  for (const tensor of graph.outputs) {
    const source = from(tensor);
    if (source) found.push([source, `out ${tensor}`, tensor]);
  }
  return found;
}

export const isGroup = (node) => node.children.length > 0;

/** Groups to be open at first: from the outermost on, as long as few boxes are shown. */
export function openAtFirst({ root }) {
  const open = new Set([""]);
  const waiting = root.children.filter(isGroup);
  let shown = root.children.length;
  while (waiting.length) {
    const node = waiting.shift();
    if (shown + node.children.length > FEW) continue;
    open.add(node.id);
    shown += node.children.length;
    waiting.push(...node.children.filter(isGroup));
  }
  return open;
}

/** How many boxes are shown when these groups are open. */
export function shownCount(node, open) {
  if (!isGroup(node) || !open.has(node.id)) return 1;
  return node.children.reduce((sum, child) => sum + shownCount(child, open), 1);
}

/** The box that stands for a node: itself, or the outermost closed group that it is in. */
export function shownFor(node, open) {
  let shown = node;
  for (let at = node.parent; at; at = at.parent) if (!open.has(at.id)) shown = at;
  return shown;
}

/** Has every group around a node open. */
export function openAround(node, open) {
  for (let at = node.parent; at; at = at.parent) open.add(at.id);
}

/** The edges that are shown, by the group that holds both ends: id -> [[from, to, tensors]]. */
export function shownLinks(nodes, pairs, open) {
  const found = new Map();
  for (const [from, to, tensor] of pairs) {
    let a = shownFor(nodes.get(from), open);
    let b = shownFor(nodes.get(to), open);
    if (a === b) continue;
    while (a.depth > b.depth) a = a.parent;
    while (b.depth > a.depth) b = b.parent;
    while (a.parent !== b.parent) [a, b] = [a.parent, b.parent];
    if (a === b) continue;
    const inner = found.get(a.parent.id) ?? new Map();
    found.set(a.parent.id, inner);
    const key = `${a.id}\u0000${b.id}`;
    if (!inner.has(key)) inner.set(key, [a.id, b.id, new Set()]);
    inner.get(key)[2].add(tensor);
  }
  return found;
}
