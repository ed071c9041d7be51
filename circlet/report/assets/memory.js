// What lies where in the arena while a partition runs: a rectangle for each buffer, from the step
// that first needs it to the one that last does, at its offset.

import { ramp, takesDarkText } from "report/colours";
import { choices, debounced, element } from "report/dom";
import * as format from "report/format";

const d3 = globalThis.d3;
const MARGIN = { top: 118, right: 16, bottom: 46, left: 84 };
const STRIP = { top: 22, bottom: 88 };
const LEAST_HEIGHT = 460;
const ABOVE = 210;
const NAMED_WIDTH = 70;
const NAMED_HEIGHT = 16;
const LETTER = 6.6;
const NAME = 48; // letters of a name in a sentence

/** Draws the page into an element; gives a function that ends it. */
export function memoryPage(parent, network, store) {
  const parts = network.partitions.map((part, index) => ({ ...part, index }))
    .filter(({ blocks }) => blocks.length);
  if (!parts.length) {
    parent.append(element("p", { class: "faint" },
      network.partitions.length ? "No partition plans working memory: all tensors are the caller's."
        : "The network was not planned."));
    return () => {};
  }
  let part = d3.greatest(parts, ({ arena_bytes: size }) => size);
  const bar = element("div", { class: "bar" });
  const facts = element("p", { class: "faint" });
  const place = element("div", { class: "chart" });
  parent.append(bar, facts, place);

  function draw() {
    if (parts.length > 1) {
      const options = parts.map(({ index, backend }) => [index, `${backend} ${index + 1}`]);
      bar.replaceChildren(choices("Partition", options, part.index, (index) => {
        part = parts.find((other) => other.index === index);
        draw();
      }));
    }
    facts.textContent = summary(network, part);
    place.replaceChildren();
    drawMap(place, network, part, store);
  }
  draw();
  const observer = new ResizeObserver(debounced(draw, 80));
  observer.observe(parent);
  const unlisten = store.listen((changed) => {
    if (changed.has("theme")) draw();
    if (changed.has("selected")) mark(place, network, part, store);
  });
  return () => {
    unlisten();
    observer.disconnect();
  };
}

/** Bytes in use in each step, and the step that uses most. */
function usage(part) {
  const changes = new Float64Array(part.steps.length + 1);
  for (const { first, last, size_bytes: size } of part.blocks) {
    changes[first] += size;
    changes[last + 1] -= size;
  }
  const used = [...d3.cumsum(changes)].slice(0, part.steps.length);
  return { used, peak: d3.maxIndex(used) };
}

function summary(network, part) {
  const { used, peak } = usage(part);
  const gap = part.arena_bytes - part.lower_bound_bytes;
  const over = gap > 0 ? `${format.bytes(gap)} above what any plan needs` : "no plan can be smaller";
  return `Arena ${format.bytes(part.arena_bytes)} (${over}; planner ${part.planner}). `
    + `The peak is ${format.bytes(used[peak])} in step ${peak + 1} of ${part.steps.length}, `
    + `${maker(network, part.steps[peak])}. Weights and tables: ${format.bytes(part.constants_bytes)}.`;
}

/** A step by its operator in words. */
function maker(network, { operator, kernel }) {
  const { kind, name } = network.graphs.optimised.operators[operator];
  return `${kernel.replace(/\(.*/, "")} of ${kind} ${format.ending(name, NAME)}`;
}

function drawMap(parent, network, part, store) {
  const width = Math.max(480, parent.clientWidth);
  const height = Math.max(LEAST_HEIGHT, innerHeight - ABOVE);
  const steps = part.steps.length;
  const x0 = d3.scaleLinear([0, steps], [MARGIN.left, width - MARGIN.right]);
  const y = d3.scaleLinear([0, part.arena_bytes], [height - MARGIN.bottom, MARGIN.top]);
  const colours = ramp();
  const strength = d3.scaleSqrt([0, d3.max(part.blocks, (block) => block.size_bytes)], [0.08, 1]);
  const svg = d3.select(parent).append("svg").attr("width", width).attr("height", height)
    .attr("role", "group").attr("aria-label", "Memory over the schedule");
  svg.append("clipPath").attr("id", "memory-clip").append("rect").attr("x", MARGIN.left)
    .attr("y", 0).attr("width", width - MARGIN.left - MARGIN.right)
    .attr("height", height - MARGIN.bottom + 2);
  axes(svg, y, width, height);
  const bottom = svg.append("g").attr("class", "axis")
    .attr("transform", `translate(0,${height - MARGIN.bottom})`);
  const inner = svg.append("g").attr("clip-path", "url(#memory-clip)");
  const blocks = inner.selectAll("g").data(part.blocks).join("g").attr("class", "block")
    .attr("tabindex", 0).attr("role", "button").attr("aria-label", (block) => title(part, block))
    .on("click", (event, block) => choose(part, block, store))
    .on("keydown", (event, block) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(part, block, store);
    });
  blocks.append("rect").attr("y", (block) => y(block.offset + block.size_bytes))
    .attr("height", (block) => Math.max(1, y(block.offset) - y(block.offset + block.size_bytes)))
    .attr("fill", (block) => colours(strength(block.size_bytes))).attr("rx", 2);
  blocks.append("title").text((block) => title(part, block));
  blocks.append("text").attr("y", (block) => y(block.offset + block.size_bytes) + 12)
    .attr("class", (block) =>
      (takesDarkText(colours(strength(block.size_bytes))) ? "on-light" : "on-dark"));
  const { used, peak } = usage(part);
  const inUse = d3.scaleLinear([0, used[peak]], [STRIP.bottom, STRIP.top]);
  const area = inner.append("path").attr("class", "usage");
  const mostUsed = inner.append("line").attr("class", "peak").attr("y1", STRIP.top)
    .attr("y2", height - MARGIN.bottom);
  strip(svg, inUse, width);

  function drawSteps(x) {
    const left = (block) => x(block.first);
    const wide = (block) => Math.max(1, x(block.last + 1) - x(block.first) - 1);
    blocks.select("rect").attr("x", left).attr("width", wide);
    blocks.select("text").attr("x", (block) => left(block) + 5).text((block) => {
      const high = y(block.offset) - y(block.offset + block.size_bytes);
      if (wide(block) < NAMED_WIDTH || high < NAMED_HEIGHT) return "";
      return format.ending(block.name, Math.floor((wide(block) - 10) / LETTER));
    });
    const outline = used.flatMap((size, step) => [[x(step), inUse(size)], [x(step + 1), inUse(size)]]);
    area.attr("d", d3.area().y0(STRIP.bottom)(outline));
    mostUsed.attr("x1", x(peak + 0.5)).attr("x2", x(peak + 0.5));
    bottom.call(d3.axisBottom(x).ticks(Math.min(steps, width / 90))
      .tickFormat((step) => (Number.isInteger(step) ? step : "")));
  }
  drawSteps(x0);
  svg.call(d3.zoom().scaleExtent([1, Math.max(1, steps / 4)])
    .translateExtent([[MARGIN.left, 0], [width - MARGIN.right, 0]])
    .extent([[MARGIN.left, 0], [width - MARGIN.right, height]])
    .filter((event) => event.type !== "wheel" || event.ctrlKey || event.shiftKey)
    .on("zoom", ({ transform }) => drawSteps(transform.rescaleX(x0)))).on("dblclick.zoom", null);
  mark(parent, network, part, store);
}

/** Round numbers of bytes, as powers of two count. */
function ticks(most, count) {
  const unit = 2 ** (10 * Math.floor(Math.log2(most || 1) / 10));
  const wanted = most / unit / count;
  const step = 2 ** Math.ceil(Math.log2(wanted || 1)) * unit;
  return d3.range(0, most + 1, Math.max(1, step));
}

function axes(svg, y, width, height) {
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
    .call(d3.axisLeft(y).tickValues(ticks(y.domain()[1], 8)).tickFormat(format.bytes)
      .tickSizeInner(-(width - MARGIN.left - MARGIN.right)).tickPadding(8));
  svg.append("text").attr("class", "axis-title").attr("x", (MARGIN.left + width) / 2)
    .attr("y", height - 8).attr("text-anchor", "middle")
    .text("Step of the schedule (zoom with Ctrl or Shift and the wheel; drag to move)");
  svg.append("text").attr("class", "axis-title").attr("x", 0).attr("y", MARGIN.top - 12)
    .text("Where buffers lie, by their offset in the arena");
}

/** The axis of the memory in use, above the map. */
function strip(svg, inUse, width) {
  svg.append("text").attr("class", "axis-title").attr("x", 0).attr("y", 12)
    .text("Memory in use");
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`)
    .call(d3.axisLeft(inUse).tickValues(inUse.domain()).tickFormat(format.bytes)
      .tickSizeInner(-(width - MARGIN.left - MARGIN.right)).tickPadding(8)).lower();
}

function title(part, { name, size_bytes: size, offset, first, last }) {
  return `${name}: ${format.bytes(size)} at ${format.bytes(offset)}, steps ${first + 1} to `
    + `${last + 1}, from ${part.steps[first].kernel}`;
}

/** Selects the operator that makes what lies in a block. */
function choose(part, block, store) {
  const { operator } = part.steps[block.first];
  store.set({ selected: { graph: "optimised", operator } });
}

/** Marks the buffers that are in use while the selected operator runs. */
function mark(parent, network, part, store) {
  const selected = store.get("selected");
  const operators = !selected ? [] : selected.graph === "optimised" ? [selected.operator]
    : network.counterparts("source", selected.operator);
  const chosen = new Set(operators.map((index) => network.graphs.optimised.operators[index])
    .filter((operator) => operator.partition === part.index).flatMap(({ steps }) => steps));
  d3.select(parent).selectAll("g.block")
    .classed("selected", ({ first }) => chosen.has(first))
    .classed("dimmed", ({ first, last }) =>
      chosen.size > 0 && ![...chosen].some((step) => first <= step && step <= last));
}
