// Placements by time and memory: those that no other beats, and where a chosen one has operators.

import { debounced, element, facts, table } from "report/dom";
import * as format from "report/format";
import { card } from "report/overview";

const d3 = globalThis.d3;
const MARGIN = { top: 20, right: 30, bottom: 52, left: 96 };
const HEIGHT = 420;
const MIB = 1 << 20;
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"];
const MOST_NAMES = 400;

/** Draws the page into an element; gives a function that ends it. */
export function frontPage(parent, network, store) {
  const front = network.front;
  if (!front) {
    parent.append(element("p", { class: "faint" },
      "No front was given: circlet report MODEL --front FILE."));
    return () => {};
  }
  let chosen = Math.max(0, front.points.findIndex((point) => point.is_front));
  const colour = d3.scaleOrdinal(d3.range(front.backends.length), COLOURS);
  const chart = element("div", { class: "chart" });
  const place = element("div", { class: "front-point", "aria-live": "polite" });
  parent.append(
    element("p", { class: "faint" }, summary(front)), chart, legend(), place);

  function choose(index) {
    chosen = index;
    d3.select(chart).selectAll("circle.dot").classed("selected", (point, i, all) =>
      Number(all[i].dataset.point) === chosen);
    place.replaceChildren(...details(front.points[chosen], network, colour, store));
  }
  function draw() {
    chart.replaceChildren();
    drawPlot(chart, front, choose);
    if (front.points.length) choose(chosen);
  }
  draw();
  const observer = new ResizeObserver(debounced(draw, 80));
  observer.observe(parent);
  return () => observer.disconnect();
}

function summary(front) {
  const found = front.points.filter((point) => point.is_front).length;
  const failed = front.failed ? `, ${format.plural(front.failed, "failure")}` : "";
  return `${format.plural(found, "placement")} that no other beats in both time and memory, of `
    + `${format.plural(front.evaluations, "evaluation")}${failed} among `
    + `${Number(front.space).toLocaleString("en")} possible ones, searched by ${front.strategy}. `
    + "Click a point to see its placement.";
}

function legend() {
  return element("div", { class: "legend" }, ...[
    ["front-line", "beaten by no other"], ["front-single", "one backend alone"],
    ["front-other", "other placements"]].map(([name, text]) =>
    element("span", { class: "legend-entry" }, element("i", { class: name }), text)));
}

function kind(point) {
  return point.single ? "front-single" : point.is_front ? "front-line" : "front-other";
}

function drawPlot(parent, front, choose) {
  const width = Math.max(480, parent.clientWidth);
  const x = d3.scaleLinear(padded(front.points, (point) => point.us),
    [MARGIN.left, width - MARGIN.right]).nice();
  const mib = d3.scaleLinear(padded(front.points, (point) => point.bytes / MIB),
    [HEIGHT - MARGIN.bottom, MARGIN.top]).nice();
  const y = (bytes) => mib(bytes / MIB);
  const svg = d3.select(parent).append("svg").attr("width", width).attr("height", HEIGHT)
    .attr("role", "group").attr("aria-label", "Time and memory of placements");
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${HEIGHT - MARGIN.bottom})`)
    .call(d3.axisBottom(x).ticks(6).tickFormat(format.time));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
    .call(d3.axisLeft(mib).ticks(6).tickFormat((value) => `${d3.format("~r")(value)} MiB`)
      .tickSizeInner(-(width - MARGIN.left - MARGIN.right)).tickPadding(8));
  svg.append("text").attr("class", "axis-title").attr("text-anchor", "middle")
    .attr("x", width / 2).attr("y", HEIGHT - 10).text("Time of one run");
  const best = front.points.filter((point) => point.is_front);
  const line = d3.line((point) => x(point.us), (point) => y(point.bytes)).curve(d3.curveStepAfter);
  svg.append("path").attr("class", "front-border").attr("d", line(best));
  const order = d3.sort(d3.range(front.points.length), (i) => front.points[i].is_front);
  svg.append("g").selectAll("circle").data(order.map((i) => front.points[i])).join("circle")
    .attr("class", (point) => `dot ${kind(point)}`)
    .attr("data-point", (point, i) => order[i])
    .attr("cx", (point) => x(point.us)).attr("cy", (point) => y(point.bytes))
    .attr("r", (point) => (point.is_front ? 7 : 5))
    .attr("tabindex", 0).attr("role", "button").attr("aria-label", (point) => title(point, front))
    .on("click", (event, point) => choose(front.points.indexOf(point)))
    .on("keydown", (event, point) => event.key === "Enter" && choose(front.points.indexOf(point)))
    .append("title").text((point) => title(point, front));
}

function padded(points, value) {
  const [low, high] = d3.extent(points, value);
  const margin = 0.06 * (high - low) || 0.1 * (high || 1);
  return [Math.max(0, low - margin), high + margin];
}

function counts(point, front) {
  const found = d3.rollups(point.backends.filter((b) => b >= 0), (rows) => rows.length, (b) => b);
  return found.sort((a, b) => b[1] - a[1]).map(([b, count]) => [front.backends[b], count]);
}

function title(point, front) {
  const backends = counts(point, front).map(([name, count]) => `${name} ${count}`).join(", ");
  return `${format.time(point.us)}, ${format.bytes(point.bytes)}: ${backends}`;
}

function details(point, network, colour, store) {
  const { front } = network;
  const interval = point.low_us === null ? ""
    : `${format.time(point.low_us)} to ${format.time(point.high_us)}`;
  return [
    card(point.single ? `${point.single} alone` : "The chosen placement", facts([
      ["Time", format.time(point.us)], ["95 % interval", interval],
      ["Predicted", point.predicted_us === null ? "" : format.time(point.predicted_us)],
      ["Memory", format.bytes(point.bytes)], ["Threads", String(point.threads)],
      ["Level", point.level], ["Executor", point.executor],
      ["Partitions", point.partitions ? String(point.partitions) : ""]])),
    card("Operators by backend", table(["Backend", "Operators"],
      counts(point, front).map(([name, count]) => [name, format.whole(count)]), [1])),
    card("Operators of the file, in order", runs(point, network, colour, store)),
  ];
}

/** A strip of all operators, then each stretch of one backend with its operators. */
function runs(point, network, colour, store) {
  const { operators } = network.graphs.source;
  const name = (backend) => (backend < 0 ? "not placed" : network.front.backends[backend]);
  const strip = element("div", { class: "front-strip" }, ...point.backends.map((backend, index) =>
    element("i", { title: `${operators[index].kind}: ${name(backend)}`,
      style: backend < 0 ? null : `background:${colour(backend)}` })));
  const rows = operators.slice(0, MOST_NAMES).map((operator, index) => [
    operator.kind,
    element("span", { class: "legend-entry" }, element("i", {
      style: point.backends[index] < 0 ? null : `background:${colour(point.backends[index])}` }),
    name(point.backends[index])),
    element("button", { type: "button", class: "link name",
      onclick: () => store.set({ selected: { graph: "source", operator: index } }) },
    format.shortened(operator.name, 90))]);
  const more = operators.length - rows.length;
  return element("div", {}, strip, table(["Kind", "Backend", "Operator"], rows),
    more > 0 ? element("p", { class: "faint" }, `and ${format.whole(more)} more`) : "");
}
