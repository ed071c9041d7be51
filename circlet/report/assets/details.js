// What is known of one operator.

import { element, facts } from "report/dom";
import * as format from "report/format";
import { operations } from "report/network";

/** Draws the panel of the selected operator into an element. */
export function drawDetails(parent, network, store) {
  const selected = store.get("selected");
  parent.hidden = !selected;
  if (!selected) return parent.replaceChildren();
  const graph = network.graphs[selected.graph];
  const operator = graph.operators[selected.operator];
  parent.replaceChildren(
    element("header", {},
      element("p", { class: "eyebrow" },
        selected.graph === "source" ? "Operator in the file" : "Operator as it runs"),
      element("h2", {}, operator.kind),
      element("p", { class: "name" }, operator.name.replaceAll(/[;+]/g, "$&\u200b")),
      element("button", { type: "button", class: "close", "aria-label": "Close details",
        onclick: () => store.set({ selected: null }) }, "×")),
    cost(network, operator),
    operator.reason ? element("p", { class: "reason" }, operator.reason) : "",
    section("Inputs", tensors(graph, operator.inputs)),
    section("Outputs", tensors(graph, operator.outputs)),
    section("Attributes", facts(Object.entries(operator.attributes))),
    counterparts(network, selected, store),
    placement(network, operator),
    kernels(network, operator));
  parent.scrollTop = 0;
  return parent;
}

function section(title, content, isOpen = true) {
  if (!content || !content.childElementCount) return "";
  return element("details", { open: isOpen }, element("summary", {}, title), content);
}

function cost(network, operator) {
  const work = operations(operator);
  const rate = operator.us && work ? `${format.count((work / operator.us) * 1e6)}OP/s` : "";
  const traffic = operator.us ? `${format.bytes((operator.bytes / operator.us) * 1e6)}/s` : "";
  const spent = operator.us === null ? ""
    : `${format.time(operator.us)} (${format.share(operator.us, network.totalUs)})`;
  return facts([
    ["Time", spent],
    ["Multiply-accumulates", operator.macs ? format.count(operator.macs) : ""],
    ["Other operations", operator.operations ? format.count(operator.operations) : ""],
    ["Bytes of operands", format.bytes(operator.bytes)],
    ["Of what is possible", operator.roof === null ? ""
      : `${format.share(operator.roof, 1)}, set by ${operator.bound}`],
    ["Rate", rate],
    ["Traffic", traffic],
    ["Memory in use", operator.alive_bytes === null ? "" : format.bytes(operator.alive_bytes)],
    ["Backend", operator.backend],
    ["Lowering", operator.lowering],
  ]);
}

function tensors(graph, numbers) {
  return element("ul", { class: "tensors" }, ...numbers.map((number) => {
    if (number < 0) return element("li", { class: "faint" }, "left out");
    const tensor = graph.tensors[number];
    return element("li", {},
      element("code", {}, format.type(tensor)),
      element("span", { class: "faint" }, ` ${format.bytes(tensor.size_bytes)}`),
      tensor.role === "computed" ? "" : element("span", { class: "tag" }, tensor.role),
      element("div", { class: "name" }, tensor.name),
      tensor.quantisation ? element("div", { class: "faint" }, tensor.quantisation) : "");
  }));
}

function counterparts(network, { graph, operator }, store) {
  const other = graph === "source" ? "optimised" : "source";
  const found = network.counterparts(graph, operator);
  if (!network.graphs[other]) return "";
  const title = graph === "source" ? "Runs as" : "Made of";
  if (!found.length) {
    const gone = graph === "source" ? "nothing is left to run: it was folded, or is a view" : "";
    return gone ? section(title, element("div", {}, element("p", { class: "faint" }, gone))) : "";
  }
  return section(title, element("ul", {}, ...found.map((index) => {
    const { kind, name } = network.graphs[other].operators[index];
    const show = () => {
      const shown = store.get("graph");
      const chosen = shown === "both" ? "both" : other;
      store.set({ graph: chosen, selected: { graph: other, operator: index } });
    };
    return element("li", {}, element("button", { type: "button", class: "link", onclick: show },
      kind), " ", element("span", { class: "name" }, format.shortened(name, 70)));
  })));
}

function placement(network, operator) {
  const refused = network.placeOf(operator.sources).flatMap((row) =>
    row.refused.map(([backend, why]) => element("li", {}, `${backend} refused it: ${why}`)));
  return refused.length ? section("Placement", element("ul", {}, ...refused)) : "";
}

function kernels(network, operator) {
  const part = network.partitions[operator.partition];
  if (!part || !operator.steps.length) return "";
  const shown = operator.steps.map((step) => part.steps[step]);
  const codes = [...new Set(shown.map(({ code }) => code).filter((code) => code >= 0))];
  const list = element("ol", { class: "kernels" }, ...shown.map(({ kernel, tasks, us }) =>
    element("li", {}, element("code", {}, kernel),
      element("span", { class: "faint" },
        ` ${format.plural(tasks, "task")}${us === null ? "" : `, ${format.time(us)}`}`))));
  const texts = codes.map((code) => source(network, network.codes[code]));
  return element("div", {}, section("Kernel calls", list),
    section("Generated C", element("div", {}, ...texts)));
}

/** The C of a kernel, and the text of the header that does the work. */
function source(network, text) {
  const name = text.match(/#include <([^>]+)>/)?.[1];
  const header = network.headers[name];
  return element("div", {},
    element("pre", { tabindex: "0" }, element("code", {}, text.trim())),
    header ? element("details", {}, element("summary", {}, name),
      element("pre", { tabindex: "0" }, element("code", {}, header.trim()))) : "");
}
