// Colours for what operators cost and are. Amounts go from faint to strong in lightness alone, so
// that they can be told apart without colour; kinds have the colours of Okabe and Ito.

import { bytes, count, time } from "report/format";
import { dtypeOf, operations } from "report/network";

const d3 = globalThis.d3;
const KINDS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"];
const STEPS = 5;

export const MODES = [
  ["time", "Time"], ["memory", "Memory"], ["work", "Arithmetic"], ["dtype", "Type"],
  ["backend", "Backend"],
];

const AMOUNTS = {
  time: { value: (operator) => operator.us, text: time, title: "Time of one run" },
  memory: {
    value: (operator) => operator.alive_bytes ?? operator.bytes, text: bytes,
    title: "Memory in use while it runs",
  },
  work: { value: operations, text: count, title: "Operations" },
};

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The colours from nothing to the most, as a function of 0..1. */
export function ramp() {
  const stops = d3.range(STEPS).map((step) => style(`--ramp-${step}`));
  return d3.piecewise(d3.interpolateLab, stops);
}

/** Whether a text on a colour is to be dark. */
export const takesDarkText = (colour) => d3.lab(colour).l > 58;

function amounts(graph, mode, least) {
  const { value, text, title } = AMOUNTS[mode];
  const memoryOfFile = mode === "memory" && graph.operators.every((op) => op.alive_bytes === null);
  const known = graph.operators.map(value).filter((found) => found !== null);
  const most = Math.max(least, d3.max(known) ?? 0);
  const scale = d3.scalePow([0, most || 1], [0, 1]).exponent(0.5).clamp(true);
  const colours = ramp();
  return {
    mode, text, most,
    title: memoryOfFile ? "Bytes of its operands" : title,
    isAmount: true,
    isKnown: known.length > 0,
    value,
    of: (found) => (found === null || found === undefined ? null : colours(scale(found))),
    colour: (operator) => {
      const found = value(operator);
      return found === null ? null : colours(scale(found));
    },
    colours,
  };
}

function kinds(graph, mode) {
  const named = mode === "dtype" ? (operator) => dtypeOf(graph, operator) : ({ backend }) =>
    backend || "not placed";
  const counts = d3.rollups(graph.operators, (rows) => rows.length, named);
  const names = counts.sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const scale = d3.scaleOrdinal(names, KINDS);
  return {
    mode, names, scale, isAmount: false, isKnown: true,
    title: mode === "dtype" ? "Type of the result" : "Backend",
    colour: (operator) => scale(named(operator)),
  };
}

/** How the operators of a graph are coloured; the strongest colour is for `least` or more. */
export function colouring(graph, mode, least = 0) {
  return mode in AMOUNTS ? amounts(graph, mode, least) : kinds(graph, mode);
}

/** What the colours mean. */
export function legend(shown) {
  const box = d3.create("div").attr("class", "legend");
  box.append("span").attr("class", "legend-title").text(shown.title);
  if (!shown.isKnown) {
    box.append("span").text("not measured");
    return box.node();
  }
  if (!shown.isAmount) {
    for (const name of shown.names) {
      const entry = box.append("span").attr("class", "legend-entry");
      entry.append("i").style("background", shown.scale(name));
      entry.append("span").text(name);
    }
    return box.node();
  }
  const stops = d3.range(0, 1.01, 0.125).map((t) => `${shown.colours(t)} ${100 * t}%`);
  box.append("span").text("0");
  box.append("span").attr("class", "legend-bar")
    .style("background", `linear-gradient(90deg, ${stops.join(", ")})`);
  box.append("span").text(shown.text(shown.most));
  return box.node();
}
