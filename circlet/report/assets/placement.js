// Which backend runs which operators, and why others do not.

import { element, table } from "report/dom";
import * as format from "report/format";
import { card } from "report/overview";

const d3 = globalThis.d3;
const MOST_NAMES = 40;

/** Draws the page into an element. */
export function placementPage(parent, network, store) {
  if (!network.placement.length) {
    parent.append(element("p", { class: "faint" }, "The network was not placed."));
    return;
  }
  const counts = d3.rollups(network.placement, (rows) => operatorsIn(network, rows),
    ({ backend }) => backend);
  const all = network.graphs.source.operators.length;
  parent.append(
    card("Operators by backend",
      table(["Backend", "Operators", "Share"],
        counts.map(([name, count]) => [name, format.whole(count), format.share(count, all)]),
        [1, 2])),
    card("By kind, and why others refused", table(["Kind", "Backend", "Operators", "Reason",
      "Names"], groups(network, store), [2])),
    card("Partitions, in the order in which they run", table(
      ["", "Backend", "Fused operators", "Kernel calls", "Working memory", "Constants", "Planner"],
      network.partitions.map((part, index) => [
        format.whole(index + 1), part.backend, format.whole(part.operators),
        part.steps.length ? format.whole(part.steps.length) : "–",
        part.steps.length ? format.bytes(part.arena_bytes) : "–",
        part.steps.length ? format.bytes(part.constants_bytes) : "–", part.planner]),
      [2, 3, 4, 5])));
}

/** How many operators of the file have a part in rows of the placement. */
function operatorsIn(network, rows) {
  const ids = new Set(rows.flatMap(({ sources }) => sources));
  return network.graphs.source.operators
    .filter(({ sources }) => sources.some((id) => ids.has(id))).length;
}

function groups(network, store) {
  const key = (row) => JSON.stringify([row.kind, row.backend, row.refused]);
  const found = d3.groups(network.placement, key).map(([, rows]) => rows);
  found.sort((a, b) => b[0].refused.length - a[0].refused.length || b.length - a.length);
  return found.map((rows) => [
    rows[0].kind, rows[0].backend, format.whole(operatorsIn(network, rows)),
    rows[0].refused.map(([backend, why]) => `${backend}: ${why}`).join("; ") || "first choice",
    element("details", {}, element("summary", {}, "show"), ...names(network, store, rows)),
  ]);
}

function names(network, store, rows) {
  const { operators } = network.graphs.source;
  const made = rows.slice(0, MOST_NAMES).map(({ name, sources }) => {
    const index = operators.findIndex((operator) => operator.sources.includes(sources[0]));
    if (index < 0) return element("div", { class: "name" }, name);
    return element("div", {}, element("button", { type: "button", class: "link name",
      onclick: () => store.set({ selected: { graph: "source", operator: index } }) },
    format.shortened(name, 80)));
  });
  const more = rows.length - made.length;
  if (more > 0) made.push(element("div", { class: "faint" }, `and ${format.whole(more)} more`));
  return made;
}
