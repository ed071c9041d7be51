// The graph of the file, what is run, or both side by side.

import { legend, MODES } from "report/colours";
import { choices, element } from "report/dom";
import { GraphView } from "report/graph";
import * as format from "report/format";

const NAMES = { source: "In the file", optimised: "As it runs" };

/** Draws the page into an element; gives a function that ends it. */
export function graphPage(parent, network, store) {
  let views = [];
  const bar = element("div", { class: "bar" });
  const stage = element("div", { class: "stage" });
  parent.append(bar, stage);

  function drawBar() {
    const both = network.graphs.optimised !== undefined;
    const graphs = [["source", NAMES.source], ["optimised", NAMES.optimised], ["both", "Both"]];
    bar.replaceChildren(
      both ? choices("Graph", graphs, store.get("graph"), (graph) => store.set({ graph })) : "",
      choices("Colour", MODES, store.get("colour"), (colour) => store.set({ colour })),
      element("div", { class: "choices", role: "group", "aria-label": "View" },
        button("Expand", "Open all groups", () => views.forEach((view) => view.openAll(true))),
        button("Collapse", "Close all groups", () => views.forEach((view) => view.openAll(false))),
        button("Fit", "Show all", () => views.forEach((view) => view.fit())),
        button("+", "Zoom in", () => views.forEach((view) => view.zoomBy(1.4))),
        button("−", "Zoom out", () => views.forEach((view) => view.zoomBy(1 / 1.4)))));
  }

  function drawGraphs() {
    views.forEach((view) => view.end());
    const chosen = store.get("graph");
    const names = chosen === "both" ? ["source", "optimised"] : [chosen];
    const panes = names.map((name) => {
      const count = network.graphs[name].operators.length;
      const noun = name === "optimised" ? "fused operator" : "operator";
      const title = `${NAMES[name]}: ${format.plural(count, noun)}`;
      return element("section", { class: "pane", "data-graph": name },
        element("h2", { class: "pane-title" }, title), element("div", { class: "canvas" }),
        element("div", { class: "legend-place" }));
    });
    stage.replaceChildren(...panes);
    views = panes.map((pane, i) => new GraphView(pane.children[1], network, names[i], store,
      (shown) => pane.lastChild.replaceChildren(legend(shown))));
    reveal();
  }

  function reveal() {
    const selected = store.get("selected");
    for (const view of selected ? views : []) {
      const [first] = selected.graph === view.name ? [selected.operator]
        : network.counterparts(selected.graph, selected.operator);
      if (first !== undefined) view.reveal(first).then(() => view.select());
    }
  }

  function follow(changed) {
    if (changed.has("graph")) drawGraphs();
    else if (changed.has("colour") || changed.has("theme")) {
      views.forEach((view) => view.colour());
    }
    if (changed.has("selected")) {
      views.forEach((view) => view.select());
      const selected = store.get("selected");
      const other = selected && views.find((view) => view.name !== selected.graph);
      const [first] = other ? network.counterparts(selected.graph, selected.operator) : [];
      if (first !== undefined) other.reveal(first).then(() => other.select());
    }
    if (changed.has("graph") || changed.has("colour")) drawBar();
  }

  drawBar();
  drawGraphs();
  const unlisten = store.listen(follow);
  return () => {
    unlisten();
    views.forEach((view) => view.end());
  };
}

function button(text, title, onclick) {
  return element("button", { type: "button", title, "aria-label": title, onclick }, text);
}
