// A report with the links that its tables leave out.

/** The links of a graph: who makes and who reads each tensor, and the edges between operators. */
function linked(graph) {
  const producer = new Map();
  const readers = new Map();
  graph.operators.forEach((operator, index) => {
    for (const tensor of operator.outputs) producer.set(tensor, index);
    for (const tensor of new Set(operator.inputs)) {
      if (tensor < 0) continue;
      if (!readers.has(tensor)) readers.set(tensor, []);
      readers.get(tensor).push(index);
    }
  });
  return { ...graph, producer, readers };
}

function positions(operators) {
  const found = new Map();
  operators.forEach(({ sources }, index) => {
    for (const id of sources) {
      if (!found.has(id)) found.set(id, []);
      found.get(id).push(index);
    }
  });
  return found;
}

/** A report, ready to be drawn: its graphs with links, and both ways between them. */
export function network(report) {
  const graphs = { source: linked(report.source) };
  if (report.optimised) graphs.optimised = linked(report.optimised);
  const byId = Object.fromEntries(
    Object.entries(graphs).map(([name, graph]) => [name, positions(graph.operators)]));
  const total = report.source.operators.reduce((sum, operator) => sum + (operator.us ?? 0), 0);
  return {
    ...report,
    graphs,
    totalUs: total,
    /** Positions in the other graph of what an operator came from or became. */
    counterparts(name, index) {
      const other = name === "source" ? "optimised" : "source";
      if (!byId[other]) return [];
      const ids = graphs[name].operators[index].sources;
      return [...new Set(ids.flatMap((id) => byId[other].get(id) ?? []))].sort((a, b) => a - b);
    },
    placeOf: (ids) => report.placement.filter((row) => row.sources.some((id) => ids.includes(id))),
  };
}

/** Elementary operations of an operator: a multiply-accumulate is two. */
export const operations = (operator) => 2 * operator.macs + operator.operations;

/** The element type that an operator works on: that of its first result. */
export function dtypeOf(graph, operator) {
  const tensor = graph.tensors[operator.outputs[0] ?? operator.inputs[0]];
  return tensor ? tensor.dtype.toLowerCase() : "none";
}
