// Two reports side by side, operators matched by name.

import { choices, element, table } from "report/dom";
import * as format from "report/format";
import { operations } from "report/network";
import { card } from "report/overview";

const d3 = globalThis.d3;
const PAGE_ROWS = 200;
const FILTERS = [["all", "All"], ["changed", "Changed"], ["removed", "Only in the first"],
  ["added", "Only in the second"]];

/** Draws the page into an element. */
export function comparePage(parent, networks, comparison, store) {
  const [first, second] = networks;
  const rows = comparison.pairs.map((pair) => ({
    ...pair,
    before: pair.first === null ? null : first.graphs.source.operators[pair.first],
    after: pair.second === null ? null : second.graphs.source.operators[pair.second],
  }));
  parent.append(card("In all", table(["", first.title, second.title, "Change"],
    totals(first, second), [1, 2, 3])), card("Operator by operator", operators(rows, store)));
}

function totals(first, second) {
  const sum = (of) => (network) => d3.sum(network.graphs.source.operators, of);
  const arena = (network) => d3.sum(network.partitions, (part) => part.arena_bytes);
  const row = (name, of, shown) => {
    const [before, after] = [of(first), of(second)];
    return [name, shown(before), shown(after), format.change(before, after)];
  };
  return [
    row("One run", (network) => network.timing?.run_us, format.time),
    row("Multiply-accumulates", sum((operator) => operator.macs), format.count),
    row("Bytes of operands", sum((operator) => operator.bytes), format.bytes),
    row("Weights", (network) => network.weights_bytes, format.bytes),
    row("Working memory", arena, format.bytes),
    row("Operators in the file", (network) => network.graphs.source.operators.length, format.whole),
    row("Fused operators", (network) => network.graphs.optimised?.operators.length ?? 0,
      format.whole),
    ["Machine", first.machine, second.machine, ""],
    ["Level", first.level, second.level, ""],
    ["Threads", String(first.timing?.threads ?? "–"), String(second.timing?.threads ?? "–"), ""],
  ];
}

/** Whether an operator in both costs or is something else. */
function isChanged({ before, after, other_kind: kind }) {
  return before && after && (kind || operations(before) !== operations(after)
    || before.bytes !== after.bytes
    || JSON.stringify(before.attributes) !== JSON.stringify(after.attributes));
}

function operators(rows, store) {
  const place = element("div");
  let chosen = "all";
  let shown = PAGE_ROWS;
  const holds = {
    all: () => true,
    changed: isChanged,
    removed: ({ after }) => !after,
    added: ({ before }) => !before,
  };
  const weight = ({ before, after }) => Math.abs((after?.us ?? 0) - (before?.us ?? 0));
  const sorted = d3.sort(rows, (row) => -weight(row));

  function draw() {
    const found = sorted.filter((row) => holds[chosen](row));
    const options = FILTERS.map(([value, text]) =>
      [value, `${text} (${format.whole(rows.filter((row) => holds[value](row)).length)})`]);
    const cells = found.slice(0, shown).map((row) => [
      name(row, store), row.kind + (row.other_kind ? ` → ${row.other_kind}` : ""),
      format.time(row.before?.us), format.time(row.after?.us),
      row.before && row.after ? format.change(row.before.us, row.after.us) : row.before
        ? "only in the first" : "only in the second",
      format.count(row.before && operations(row.before)),
      format.count(row.after && operations(row.after)),
    ]);
    const left = found.length - cells.length;
    place.replaceChildren(
      element("div", { class: "bar" }, choices("Operators", options, chosen, (value) => {
        [chosen, shown] = [value, PAGE_ROWS];
        draw();
      })),
      table(["Operator", "Kind", "Time, first", "Time, second", "Change", "Operations, first",
        "Operations, second"], cells, [2, 3, 4, 5, 6]),
      left > 0 ? element("button", { type: "button", onclick: () => {
        shown += PAGE_ROWS;
        draw();
      } }, `Show more (${format.whole(left)} left)`) : "");
  }
  draw();
  return place;
}

function name(row, store) {
  const [report, operator] = row.first === null ? [1, row.second] : [0, row.first];
  const show = () => store.set({ report, selected: { graph: "source", operator } });
  return element("button", { type: "button", class: "link name", title: row.name, onclick: show },
    format.shortened(row.name, 60));
}
