// The page: its parts, and which of them is shown.

import { comparePage } from "report/compare";
import { drawDetails } from "report/details";
import { choices, element } from "report/dom";
import { frontPage } from "report/front";
import { graphPage } from "report/graph_page";
import { memoryPage } from "report/memory";
import { network } from "report/network";
import { overviewPage } from "report/overview";
import { placementPage } from "report/placement";
import { rooflinePage } from "report/roofline";
import { makeStore } from "report/store";
import { timePage } from "report/times";

const PAGES = {
  overview: ["Overview", overviewPage],
  graph: ["Graph", graphPage],
  time: ["Time", timePage],
  memory: ["Memory", memoryPage],
  roofline: ["Roofline", rooflinePage],
  placement: ["Placement", placementPage],
};
const THEMES = [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]];
const OF_REPORT = ["report", "view"];

function read() {
  const { reports, comparison } = JSON.parse(document.getElementById("data").textContent);
  return { networks: reports.map(network), comparison };
}

/** Draws the page and keeps it as the reader wants it. */
export function start() {
  const { networks, comparison } = read();
  const pages = { ...PAGES };
  if (comparison) {
    pages.compare = ["Compare", (parent, _, store) =>
      comparePage(parent, networks, comparison, store)];
  }
  if (networks.some(({ front }) => front)) pages.front = ["Front", frontPage];
  const wanted = location.hash.slice(1);
  const first = networks[0];
  const store = makeStore({
    view: wanted in pages ? wanted : comparison ? "compare" : "overview",
    report: 0, graph: first.graphs.optimised ? "optimised" : "source",
    colour: first.timing ? "time" : "work", selected: null, theme: "auto",
  });
  const header = element("header", { class: "top" });
  const main = element("main", { id: "main", tabindex: "-1" });
  const details = element("aside", { class: "details", "aria-label": "Details", hidden: true });
  document.getElementById("page").append(header,
    element("div", { class: "body" }, main, details));
  let end = null;

  const current = () => networks[store.get("report")];

  function drawHeader() {
    const views = Object.entries(pages).map(([name, [text]]) => [name, text]);
    const reports = networks.map(({ title }, index) => [index, `${index + 1}: ${title}`]);
    header.replaceChildren(
      element("h1", {}, networks.map(({ title }) => title).join(" and ")),
      element("nav", { "aria-label": "Parts of the report" }, ...views.map(([name, text]) =>
        element("button", { type: "button", "data-view": name,
          "aria-current": store.get("view") === name ? "page" : null,
          onclick: () => store.set({ view: name }) }, text))),
      networks.length > 1
        ? choices("Report", reports, store.get("report"), (report) =>
          store.set({ report, selected: null })) : "",
      choices("Theme", THEMES, store.get("theme"), (theme) => store.set({ theme })));
  }

  function drawMain() {
    end?.();
    const page = element("div", { class: `page ${store.get("view")}` });
    main.replaceChildren(page);
    main.scrollTop = 0;
    end = pages[store.get("view")][1](page, current(), store) ?? null;
    history.replaceState(null, "", `#${store.get("view")}`);
  }

  function keepFocus(draw) {
    const { view, value } = document.activeElement?.dataset ?? {};
    const isInHeader = header.contains(document.activeElement);
    draw();
    if (!isInHeader) return;
    const name = view ? `[data-view="${view}"]` : `[data-value="${value}"]`;
    header.querySelector(name)?.focus();
  }

  store.listen((changed) => {
    if (changed.has("report") && !current().graphs[store.get("graph")]) {
      store.set({ graph: "source" });
    }
    if (changed.has("theme")) document.documentElement.dataset.theme = store.get("theme");
    if (["report", "view", "theme"].some((name) => changed.has(name))) keepFocus(drawHeader);
    if (changed.has("selected") || changed.has("report")) drawDetails(details, current(), store);
    if (OF_REPORT.some((name) => changed.has(name))) drawMain();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") store.set({ selected: null });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (store.get("theme") === "auto") {
      store.set({ theme: "changing" });
      store.set({ theme: "auto" });
    }
  });
  document.documentElement.dataset.theme = "auto";
  drawHeader();
  drawMain();
  document.documentElement.dataset.ready = "";
}
