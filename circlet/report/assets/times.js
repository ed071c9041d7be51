// Time by operator of the file, to be searched and sorted.

import { debounced, element, table } from "report/dom";
import * as format from "report/format";
import { operations } from "report/network";
import { bar, operatorLink } from "report/overview";

const d3 = globalThis.d3;
const PAGE_ROWS = 200;
const ORDERS = {
  time: ["longest first", (a, b) => (b.us ?? -1) - (a.us ?? -1) || a.index - b.index],
  order: ["as in the file", (a, b) => a.index - b.index],
  work: ["most arithmetic first", (a, b) => operations(b) - operations(a) || a.index - b.index],
  bytes: ["most bytes first", (a, b) => b.bytes - a.bytes || a.index - b.index],
};

/** Draws the page into an element. */
export function timePage(parent, network, store) {
  const operators = network.graphs.source.operators.map((operator, index) =>
    ({ ...operator, index }));
  const most = d3.max(operators, ({ us }) => us ?? 0);
  let shown = PAGE_ROWS;
  const result = element("div");
  const search = element("input", { type: "search", placeholder: "Search names and kinds",
    "aria-label": "Search names and kinds", oninput: debounced(restart, 120) });
  const order = element("select", { "aria-label": "Order", onchange: restart },
    ...Object.entries(ORDERS).map(([value, [text]]) => element("option", { value }, text)));
  parent.append(element("div", { class: "bar" }, search, order), note(network), result);

  function restart() {
    shown = PAGE_ROWS;
    draw();
  }

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = operators.filter(({ name, kind }) => {
      const text = `${name} ${kind}`.toLowerCase();
      return words.every((word) => text.includes(word));
    }).sort(ORDERS[order.value][1]);
    const rows = found.slice(0, shown).map((operator) => row(network, store, operator, most));
    const left = found.length - rows.length;
    result.replaceChildren(
      element("p", { class: "faint" }, `${format.plural(found.length, "operator")}, `
        + `${format.time(d3.sum(found, ({ us }) => us ?? 0))}`),
      table(["Operator", "Kind", "", "Time", "Share", "MACs", "Bytes", "OP/s", "Roofline", "Why"],
        rows, [3, 4, 5, 6, 7, 8]),
      left > 0 ? element("button", { type: "button", onclick: () => {
        shown += PAGE_ROWS;
        draw();
      } }, `Show more (${format.whole(left)} left)`) : "");
  }
  draw();
}

function note(network) {
  const text = network.timing
    ? "A kernel that computes several operators of the file has its time shared out among them; "
      + "those without a time are views of memory, or were computed ahead."
    : "The network was not run: times are missing.";
  return element("p", { class: "faint" }, text);
}

function row(network, store, operator, most) {
  const rate = (amount) => (operator.us && amount ? (amount / operator.us) * 1e6 : null);
  return [
    operatorLink(network, store, "source", operator.index),
    operator.kind,
    bar(operator.us ?? 0, most),
    format.time(operator.us),
    format.share(operator.us, network.totalUs),
    operator.macs ? format.count(operator.macs) : "",
    format.bytes(operator.bytes),
    format.count(rate(operations(operator))),
    operator.roof === null ? "–" : format.share(operator.roof, 1),
    element("span", { class: "why" }, operator.reason),
  ];
}
