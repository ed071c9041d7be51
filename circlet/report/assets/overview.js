// The network at a glance.

import { element, facts, table } from "report/dom";
import * as format from "report/format";
import { operations } from "report/network";

const d3 = globalThis.d3;
const MOST_ROWS = 12;

/** Draws the page into an element. */
export function overviewPage(parent, network, store) {
  parent.append(
    tiles(network),
    notices(network),
    element("div", { class: "columns" },
      card("Where the time goes, by kind of operator", byKind(network)),
      card("What optimising did", optimising(network))),
    card("The operators that take longest", longest(network, store)),
    card("How it was made", facts([
      ["Network", `${network.title} (${network.format})`],
      ["Machine", network.machine],
      ["Optimisation level", network.level],
      ["Backends asked for", network.backends.join(", ")],
      ["Runs", network.timing ? `${network.timing.runs} on ${network.timing.inputs}, `
        + format.plural(network.timing.threads, "thread") : "not run"],
      ["Circlet", network.circlet],
    ])));
}

export function card(title, content) {
  return element("section", { class: "card" }, element("h2", {}, title), content);
}

function tile(name, value, note) {
  return element("div", { class: "tile" }, element("span", { class: "tile-name" }, name),
    element("strong", {}, value), element("span", { class: "faint" }, note));
}

function tiles(network) {
  const { operators } = network.graphs.source;
  const arena = d3.sum(network.partitions, (part) => part.arena_bytes);
  const least = d3.sum(network.partitions, (part) => part.lower_bound_bytes);
  const macs = d3.sum(operators, (operator) => operator.macs);
  const run = network.timing?.run_us;
  const after = network.graphs.optimised?.operators.length;
  const native = network.placement.filter((row) => row.backend === network.backends[0]).length;
  return element("div", { class: "tiles" },
    tile("One run", format.time(run), network.timing
      ? `${format.plural(network.timing.runs, "run")}, ${format.plural(network.timing.threads, "thread")}`
      : "not measured"),
    tile("Multiply-accumulates", format.count(macs),
      run && macs ? `${format.count((2 * macs * 1e6) / run)}OP/s` : ""),
    tile("Weights", format.bytes(network.weights_bytes), "in the file"),
    tile("Working memory", arena ? format.bytes(arena) : "–",
      arena ? `at least ${format.bytes(least)} needed` : "not planned"),
    tile("Operators", format.whole(operators.length),
      after === undefined ? "not compiled" : format.plural(after, "fused operator")),
    tile("Placement", network.placement.length
      ? format.share(native, network.placement.length) : "–", `on ${network.backends[0]}`));
}

function notices(network) {
  if (!network.unsupported.length) return "";
  const rows = network.unsupported.map(([kind, name, reason]) => [kind, name, reason]);
  return card("Operators that cannot be run", table(["Kind", "Operator", "Why"], rows));
}

function byKind(network) {
  const { operators } = network.graphs.source;
  const measured = network.timing !== null;
  const of = measured ? (operator) => operator.us ?? 0 : operations;
  const shown = measured ? format.time : format.count;
  const sums = d3.rollups(operators, (rows) => [d3.sum(rows, of), rows.length], ({ kind }) => kind)
    .sort((a, b) => b[1][0] - a[1][0]);
  const all = d3.sum(sums, ([, [sum]]) => sum);
  const head = sums.slice(0, MOST_ROWS);
  const rest = sums.slice(MOST_ROWS);
  const rows = head.map(([kind, [sum, count]]) =>
    [kind, format.whole(count), bar(sum, sums[0][1][0]), shown(sum), format.share(sum, all)]);
  if (rest.length) {
    const sum = d3.sum(rest, ([, [part]]) => part);
    rows.push([`${rest.length} more kinds`, format.whole(d3.sum(rest, ([, row]) => row[1])),
      bar(sum, sums[0][1][0]), shown(sum), format.share(sum, all)]);
  }
  return table(["Kind", "Count", "", measured ? "Time" : "Operations", "Share"], rows, [1, 3, 4]);
}

/** A bar as long as a value is beside the largest. */
export function bar(value, most) {
  const width = most ? Math.max(0, (100 * value) / most) : 0;
  return element("span", { class: "meter", "aria-hidden": "true" },
    element("i", { style: `width:${width.toFixed(2)}%` }));
}

function optimising(network) {
  const { source, optimised } = network.graphs;
  if (!optimised) return element("p", { class: "faint" }, "The network was not compiled.");
  const before = d3.rollup(source.operators, (rows) => rows.length, ({ kind }) => kind);
  const after = d3.rollup(optimised.operators, (rows) => rows.length, ({ kind }) => kind);
  const kinds = [...new Set([...before.keys(), ...after.keys()])]
    .map((kind) => [kind, before.get(kind) ?? 0, after.get(kind) ?? 0])
    .filter(([, old, now]) => old !== now)
    .sort((a, b) => Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1]));
  if (!kinds.length) {
    return element("p", { class: "faint" }, "Every operator runs as it is in the file.");
  }
  const moved = (graph) => d3.sum(graph.operators, (operator) => operator.bytes);
  const rows = kinds.slice(0, MOST_ROWS).map(([kind, old, now]) =>
    [kind, format.whole(old), format.whole(now)]);
  const more = kinds.length - rows.length;
  if (more > 0) rows.push([`${more} more kinds`, "", ""]);
  rows.push(["Bytes of operands", format.bytes(moved(source)), format.bytes(moved(optimised))]);
  return table(["Kind", "Before", "After"], rows, [1, 2]);
}

function longest(network, store) {
  const { operators } = network.graphs.source;
  const measured = network.timing !== null;
  const of = measured ? (operator) => operator.us ?? 0 : operations;
  const order = d3.range(operators.length).sort((a, b) => of(operators[b]) - of(operators[a]));
  const most = order.length ? of(operators[order[0]]) : 0;
  const rows = order.slice(0, 10).map((index) => {
    const operator = operators[index];
    return [operatorLink(network, store, "source", index), operator.kind, bar(of(operator), most),
      measured ? format.time(operator.us) : format.count(operations(operator))];
  });
  const all = element("button", { type: "button", class: "link",
    onclick: () => store.set({ view: "time" }) }, "All operators");
  return element("div", {},
    table(["Operator", "Kind", "", measured ? "Time" : "Operations"], rows, [3]), all);
}

/** A button with an operator's name that shows its details. */
export function operatorLink(network, store, graph, index) {
  const { name } = network.graphs[graph].operators[index];
  return element("button", { type: "button", class: "link name", title: name,
    onclick: () => store.set({ selected: { graph, operator: index } }) },
  format.shortened(name, 64));
}
