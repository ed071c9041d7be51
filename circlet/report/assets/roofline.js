// Operators beside what the machine can do: operations per byte, and operations per second.

import { colouring, legend } from "report/colours";
import { debounced, element } from "report/dom";
import * as format from "report/format";
import { operations } from "report/network";

const d3 = globalThis.d3;
const MARGIN = { top: 20, right: 30, bottom: 52, left: 84 };
const LEAST_HEIGHT = 460;
const ABOVE = 220;
const FEW_DECADES = 3;

/** Draws the page into an element; gives a function that ends it. */
export function rooflinePage(parent, network, store) {
  const graph = network.graphs.optimised;
  const points = (graph?.operators ?? []).map((operator, index) => ({
    operator, index, ratio: operations(operator) / operator.bytes,
    rate: (operations(operator) / operator.us) * 1e6,
  })).filter(({ operator }) => operator.us > 0 && operator.bytes > 0 && operations(operator) > 0);
  if (!points.length) {
    parent.append(element("p", { class: "faint" },
      "No operator that computes was measured: make the report with runs."));
    return () => {};
  }
  const colours = element("div", { class: "legend-place" });
  const place = element("div", { class: "chart" });
  parent.append(
    element("p", { class: "faint" }, "Each dot is an operator as it runs; its area is its time. "
      + (network.roofs.length ? "Lines are what this machine was measured to do at most."
        : "The machine's limits were not measured.")),
    colours, place);

  function draw() {
    place.replaceChildren();
    const shown = colouring(graph, "dtype");
    colours.replaceChildren(legend(shown));
    drawPlot(place, network, points, shown, store);
    mark(place, network, store);
  }
  draw();
  const observer = new ResizeObserver(debounced(draw, 80));
  observer.observe(parent);
  const unlisten = store.listen((changed) => {
    if (changed.has("theme")) draw();
    if (changed.has("selected")) mark(place, network, store);
  });
  return () => {
    unlisten();
    observer.disconnect();
  };
}

function scales(points, roofs, width, height) {
  const [low, high] = d3.extent(points, ({ ratio }) => ratio);
  const x = d3.scaleLog([low / 2, high * 2], [MARGIN.left, width - MARGIN.right]);
  const peaks = roofs.filter(({ gops }) => gops).map(({ gops }) => gops * 1e9);
  const [slow, fast] = d3.extent([...points.map(({ rate }) => rate), ...peaks]);
  const y = d3.scaleLog([slow / 2, fast * 2], [height - MARGIN.bottom, MARGIN.top]);
  return { x, y };
}

/** Values of an axis that are named: powers of ten, and twice and five times those of a few. */
function named(scale) {
  const [low, high] = scale.domain().map(Math.log10);
  const factors = high - low > FEW_DECADES ? [1] : [1, 2, 5];
  return d3.range(Math.floor(low), high + 1)
    .flatMap((power) => factors.map((factor) => factor * 10 ** power))
    .filter((value) => value >= scale.domain()[0] && value <= scale.domain()[1]);
}

function drawPlot(parent, network, points, shown, store) {
  const width = Math.max(480, parent.clientWidth);
  const height = Math.max(LEAST_HEIGHT, innerHeight - ABOVE);
  const { x, y } = scales(points, network.roofs, width, height);
  const svg = d3.select(parent).append("svg").attr("width", width).attr("height", height)
    .attr("role", "group").attr("aria-label", "Roofline");
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - MARGIN.bottom})`)
    .call(d3.axisBottom(x).tickValues(named(x)).tickFormat(d3.format("~g")));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
    .call(d3.axisLeft(y).tickValues(named(y)).tickFormat((rate) => `${format.count(rate)}OP/s`)
      .tickSizeInner(-(width - MARGIN.left - MARGIN.right)).tickPadding(8));
  svg.append("text").attr("class", "axis-title").attr("text-anchor", "middle")
    .attr("x", width / 2).attr("y", height - 10).text("Operations per byte of operands");
  drawRoofs(svg, network.roofs, x, y);
  const most = d3.max(points, ({ operator }) => operator.us);
  const radius = d3.scaleSqrt([0, most], [2.5, 22]);
  const sorted = d3.sort(points, (point) => -point.operator.us);
  svg.append("g").selectAll("circle").data(sorted).join("circle").attr("class", "dot")
    .attr("cx", ({ ratio }) => x(ratio)).attr("cy", ({ rate }) => y(rate))
    .attr("r", ({ operator }) => radius(operator.us))
    .attr("fill", ({ operator }) => shown.colour(operator))
    .attr("tabindex", 0).attr("role", "button").attr("aria-label", title)
    .on("click", (event, { index }) => choose(index, store))
    .on("keydown", (event, { index }) => event.key === "Enter" && choose(index, store))
    .append("title").text(title);
}

function title({ operator, ratio, rate }) {
  return `${operator.kind} ${operator.name}: ${format.time(operator.us)}, `
    + `${format.count(rate)}OP/s at ${ratio.toFixed(2)} operations per byte`;
}

/** The lines of the machine's limits; memory's are cut where arithmetic is the limit. */
function drawRoofs(svg, roofs, x, y) {
  const [left, right] = x.domain();
  const peak = d3.max(roofs, ({ gops }) => gops) ?? Infinity;
  for (const { name, gops, gbs } of roofs) {
    const at = (ratio) => (gops ? gops : Math.min(peak, gbs * ratio)) * 1e9;
    const turn = gops ? right : Math.min(right, peak / gbs);
    const ends = [left, Math.max(left, turn)].map((ratio) => [ratio, at(ratio)])
      .filter(([, rate]) => rate > 0);
    const drawn = ends.map(([ratio, rate]) => [x(ratio), y(Math.max(rate, y.domain()[0]))]);
    svg.append("path").attr("class", gops ? "roof" : "roof slope").attr("d", d3.line()(drawn));
    const limit = gops ? `${format.count(gops * 1e9)}OP/s` : `${format.count(gbs * 1e9)}B/s`;
    svg.append("text").attr("class", "roof-name").attr("x", drawn[1][0] - 6)
      .attr("y", drawn[1][1] - 5).attr("text-anchor", "end").text(`${name} ${limit}`);
  }
}

function choose(operator, store) {
  store.set({ selected: { graph: "optimised", operator } });
}

function mark(parent, network, store) {
  const selected = store.get("selected");
  const chosen = new Set(!selected ? [] : selected.graph === "optimised" ? [selected.operator]
    : network.counterparts("source", selected.operator));
  d3.select(parent).selectAll("circle.dot").classed("selected", ({ index }) => chosen.has(index));
}
