// A drawing of one graph: boxes for operators and groups, which open and close, lines between them.

import { colouring, takesDarkText } from "report/colours";
import { debounced } from "report/dom";
import * as format from "report/format";
import {
  isGroup, links, openAround, openAtFirst, shownCount, shownFor, shownLinks, tree,
} from "report/hierarchy";
import { laidOut } from "report/layouts";

const d3 = globalThis.d3;
const MOST_LETTERS = 30;
const FONTS = ["600 12.5px", "11.5px"];
const MOST_BOXES = 800;
const SMALL = 0.5;
const LEAST_SCALE = 0.62;
const KEYS = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 };

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a text is in the first or the second line of a box. */
function widthOf(text, line) {
  const family = getComputedStyle(document.body).fontFamily;
  ruler.font = `${FONTS[line]} ${family}`;
  return ruler.measureText(text).width;
}

export class GraphView {
  /**
   * Draws the graph `name` of a network into an element; `explain` is given what its colours mean
   * whenever they change.
   */
  constructor(parent, network, name, store, explain) {
    Object.assign(this, { network, name, store, explain, graph: network.graphs[name] });
    this.tree = tree(this.graph);
    this.links = links(this.graph);
    this.open = openAtFirst(this.tree);
    this.frame = d3.select(parent);
    this.svg = this.frame.append("svg").attr("class", "graph").attr("role", "group")
      .attr("aria-label", `${name} graph; arrow keys go along its edges`);
    this.svg.append("defs").append("marker").attr("id", `arrow-${name}`)
      .attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
      .attr("markerUnits", "userSpaceOnUse").attr("markerWidth", 8).attr("markerHeight", 8).attr("orient", "auto")
      .append("path").attr("d", "M0,1 L7,4 L0,7 z").attr("class", "arrow");
    this.world = this.svg.append("g");
    // The picture moves as a whole, by the style: a transform inside of it would lay out all texts
    // anew for each frame.
    this.zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", ({ transform }) => {
      const { x, y, k } = transform;
      this.svg.style("transform", `translate(${x}px, ${y}px) scale(${k})`);
      this.svg.classed("far", transform.k < SMALL).classed("farther", transform.k < SMALL / 2);
    });
    this.frame.call(this.zoom).on("dblclick.zoom", null);
    this.observer = new ResizeObserver(debounced(() => this.isFitted && this.begin(), 60));
    this.observer.observe(parent);
    this.ready = this.redraw().then(() => this.begin());
  }

  end() {
    this.observer.disconnect();
    this.frame.on(".zoom", null);
    this.svg.remove();
  }

  /** Lays out and draws what is open now. */
  async redraw() {
    const edges = shownLinks(this.tree.nodes, this.links, this.open);
    const drawing = (this.drawing = {});
    const box = await laidOut(this.box(this.tree.root, edges));
    if (drawing !== this.drawing) return;
    this.boxes = [];
    this.lines = [];
    this.place(box, 0, 0);
    this.size = box;
    this.svg.attr("width", box.width).attr("height", box.height);
    this.draw();
    this.colour();
    this.select();
  }

  box(node, edges) {
    if (!isGroup(node) || !this.open.has(node.id)) return { id: node.id, ...this.measure(node) };
    return {
      id: node.id,
      width: widthOf(format.shortened(node.label, MOST_LETTERS), 0) + 50,
      height: 0,
      children: node.children.map((child) => this.box(child, edges)),
      edges: [...(edges.get(node.id)?.values() ?? [])].map(([from, to]) => [from, to]),
    };
  }

  measure(node) {
    const [first, second] = this.texts(node);
    return { width: Math.max(widthOf(first, 0), widthOf(second, 1)) + 24, height: second ? 44 : 28 };
  }

  /** The two lines in a box. */
  texts(node) {
    return this.wholeTexts(node).map((text) => format.shortened(text, MOST_LETTERS));
  }

  wholeTexts(node) {
    if (node.tensor !== undefined) {
      const tensor = this.graph.tensors[node.tensor];
      return [tensor.name || node.label, format.type(tensor)];
    }
    if (isGroup(node)) {
      const noun = this.name === "optimised" ? "fused operator" : "operator";
      return [node.label, format.plural(node.operators.length, noun)];
    }
    const operator = this.graph.operators[node.operator];
    const tensor = this.graph.tensors[operator.outputs[0]];
    return [operator.kind, tensor ? format.type(tensor) : ""];
  }

  place(box, x, y) {
    for (const child of box.children ?? []) {
      const node = this.tree.nodes.get(child.id);
      const at = { node, x: x + child.x, y: y + child.y, w: child.width, h: child.height };
      this.boxes.push(at);
      if (child.children) this.place(child, at.x, at.y);
    }
    for (const { from, to, points } of box.edges ?? []) {
      const moved = points.map((point) => [x + point.x, y + point.y]);
      this.lines.push({ id: `${from} ${to}`, points: moved });
    }
  }

  draw() {
    const line = d3.line().curve(d3.curveMonotoneY);
    this.world.selectAll("path.edge").data(this.lines, ({ id }) => id).join("path")
      .attr("class", "edge").attr("marker-end", `url(#arrow-${this.name})`)
      .attr("d", ({ points }) => line(points));
    const boxes = this.world.selectAll("g.box").data(this.boxes, ({ node }) => node.id)
      .join((enter) => this.enter(enter))
      .attr("class", ({ node }) => `box ${this.kindOf(node)}`)
      .attr("transform", ({ x, y }) => `translate(${x},${y})`)
      .attr("aria-expanded", ({ node }) => (isGroup(node) ? this.open.has(node.id) : null));
    boxes.select("rect").attr("width", ({ w }) => w).attr("height", ({ h }) => h);
    boxes.select("text.first").attr("y", ({ node }) => (this.isOpen(node) ? 20 : 18))
      .attr("x", ({ node, w }) => (this.isOpen(node) ? 14 : w / 2));
    boxes.select("text.second").attr("x", ({ w }) => w / 2)
      .attr("display", ({ node }) => (this.isOpen(node) ? "none" : null));
    this.world.selectAll("path.edge").raise();
    this.world.selectAll("g.box:not(.open)").raise();
  }

  enter(entering) {
    const box = entering.append("g").attr("tabindex", 0).attr("role", "button")
      .attr("data-node", ({ node }) => node.id)
      .attr("aria-label", ({ node }) => this.describe(node))
      .on("click", (event, { node }) => this.choose(node))
      .on("keydown", (event, { node }) => this.key(event, node))
      .on("focus", (event, { node }) => event.target.matches(":focus-visible") && this.show(node));
    box.append("rect").attr("rx", 7);
    box.append("text").attr("class", "first")
      .text(({ node }) => this.texts(node)[0]);
    box.append("text").attr("class", "second").attr("y", 34)
      .text(({ node }) => this.texts(node)[1]);
    box.append("title").text(({ node }) => this.describe(node));
    return box;
  }

  describe(node) {
    if (node.operator === undefined) return this.wholeTexts(node).join(": ");
    const operator = this.graph.operators[node.operator];
    const spent = operator.us === null ? "" : `, ${format.time(operator.us)}`;
    return `${operator.kind} ${operator.name}${spent}`;
  }

  kindOf(node) {
    if (node.tensor !== undefined) return "end";
    if (!isGroup(node)) return "operator";
    return this.isOpen(node) ? "group open" : "group closed";
  }

  isOpen(node) {
    return isGroup(node) && this.open.has(node.id);
  }

  choose(node) {
    if (isGroup(node)) this.toggle(node);
    else if (node.operator !== undefined) {
      this.store.set({ selected: { graph: this.name, operator: node.operator } });
    }
  }

  async toggle(node) {
    const before = this.boxes.find((box) => box.node === node);
    if (!this.open.delete(node.id)) this.open.add(node.id);
    await this.redraw();
    const after = this.boxes.find((box) => box.node === node);
    const { k } = d3.zoomTransform(this.frame.node());
    this.zoom.translateBy(this.frame, before.x - after.x, before.y - after.y, k);
    this.isFitted = false;
  }

  /** Opens all groups, or as many as can still be drawn; closes all. */
  async openAll(isOpen) {
    this.open = new Set([""]);
    const waiting = isOpen ? this.tree.root.children.filter(isGroup) : [];
    while (waiting.length) {
      const node = waiting.shift();
      this.open.add(node.id);
      if (shownCount(this.tree.root, this.open) > MOST_BOXES) {
        this.open.delete(node.id);
        break;
      }
      waiting.push(...node.children.filter(isGroup));
    }
    await this.redraw();
    this.begin();
  }

  key(event, node) {
    if (event.key === "Enter" || event.key === " ") this.choose(node);
    else if (event.key in KEYS) this.step(node, KEYS[event.key]);
    else return;
    event.preventDefault();
  }

  /** Moves the focus to the next box along the edges, or to the one before. */
  step(node, direction) {
    const ids = new Set([node.id, ...node.operators.map((index) => `op ${index}`)]);
    const [from, to] = direction > 0 ? [0, 1] : [1, 0];
    const next = this.links.find((pair) => ids.has(pair[from]) && !ids.has(pair[to]));
    if (next) this.show(shownFor(this.tree.nodes.get(next[to]), this.open), true);
  }

  /** Brings a box into the middle. */
  show(node, withFocus = false) {
    const box = this.boxes.find((found) => found.node === node);
    if (!box) return;
    const { k } = d3.zoomTransform(this.frame.node());
    this.zoom.scaleTo(this.frame, Math.max(k, 0.6));
    this.zoom.translateTo(this.frame, box.x + box.w / 2, box.y + Math.min(box.h, 200) / 2);
    this.isFitted = false;
    if (withFocus) {
      this.world.selectAll("g.box").filter(({ node: own }) => own === node).node().focus();
    }
  }

  /** Opens the groups around an operator and shows it. */
  async reveal(index) {
    await this.ready;
    const node = this.tree.nodes.get(`op ${index}`);
    const count = this.open.size;
    openAround(node, this.open);
    if (this.open.size > count) await this.redraw();
    this.show(node);
  }

  /** Shows all of it. */
  fit() {
    const { width, height } = this.frame.node().getBoundingClientRect();
    if (!this.size || !width || !height) return;
    const k = Math.min(1.1, 0.97 * Math.min(width / this.size.width, height / this.size.height));
    this.move((width - k * this.size.width) / 2, (height - k * this.size.height) / 2, k);
  }

  /** Shows all of it where that can be read, or else its beginning. */
  begin() {
    const { width, height } = this.frame.node().getBoundingClientRect();
    if (!this.size || !width || !height) return;
    if (Math.min(width / this.size.width, height / this.size.height) > LEAST_SCALE) {
      this.fit();
      return;
    }
    const k = Math.min(1.1, Math.max(LEAST_SCALE, (0.97 * width) / this.size.width));
    const top = d3.least(this.boxes, ({ y }) => y);
    const isWide = k * this.size.width > width;
    this.move(width / 2 - k * (isWide ? top.x + top.w / 2 : this.size.width / 2), 12, k);
  }

  move(x, y, k) {
    this.frame.call(this.zoom.transform, d3.zoomIdentity.translate(x, y).scale(k));
    this.isFitted = true;
  }

  zoomBy(factor) {
    this.zoom.scaleBy(this.frame, factor);
    this.isFitted = false;
  }

  colour() {
    const mode = this.store.get("colour");
    const closed = this.boxes.map(({ node }) => node).filter(
      (node) => isGroup(node) && !this.isOpen(node));
    const plain = colouring(this.graph, mode);
    const amounts = new Map(plain.isAmount && plain.isKnown
      ? closed.map((node) => [node, this.amount(node, plain)]) : []);
    const shown = colouring(this.graph, mode, d3.max(amounts.values()));
    const of = ({ node }) => {
      if (node.operator !== undefined) return shown.colour(this.graph.operators[node.operator]);
      return amounts.has(node) ? shown.of(amounts.get(node)) : null;
    };
    this.world.selectAll("g.box").each(function paint(box) {
      const colour = of(box);
      d3.select(this).style("--fill", colour)
        .classed("on-dark", colour !== null && !takesDarkText(colour))
        .classed("on-light", colour !== null && takesDarkText(colour));
    });
    this.explain(shown);
  }

  /** What a closed group stands for: the sum of its operators, or the most that one needs. */
  amount(node, { mode, value }) {
    const found = node.operators.map((index) => value(this.graph.operators[index]) ?? 0);
    return mode === "memory" ? d3.max(found) : d3.sum(found);
  }

  /** Marks what is selected, here or in the other graph, and the edges that touch it. */
  select() {
    const selected = this.store.get("selected");
    const indexes = !selected ? [] : selected.graph === this.name ? [selected.operator]
      : this.network.counterparts(selected.graph, selected.operator);
    const nodes = indexes.map((index) => this.tree.nodes.get(`op ${index}`));
    const shown = new Set(nodes.map((node) => shownFor(node, this.open).id));
    this.world.selectAll("g.box").classed("selected", ({ node }) => shown.has(node.id))
      .attr("aria-current", ({ node }) => (shown.has(node.id) ? "true" : null));
    const ends = [...shown];
    this.world.selectAll("path.edge").classed("near", ({ id }) =>
      ends.some((end) => id.startsWith(`${end} `) || id.endsWith(` ${end}`)));
  }
}
