// Every node as one cell, coloured by how much of it is in use; of a huge machine a cell is a few nodes, and choosing one
// shows them one by one. Arrow keys walk over it, Enter opens, Escape shows all, and the same is there as a table.

import { button, el, nodeLink, pager, swatch, table } from "./elements.js";
import { ramp, sharp, style } from "./colours.js";
import { count, nodeName, number } from "./words.js";

const STATES = ["idle", "busy", "shared", "drained", "down"];
const [DRAINED, DOWN] = [3, 4];
const LEAST = 6; // pixels of a cell
const BLOCK = 1024; // nodes shown one by one where a cell of a huge machine was chosen
const ROWS = 200; // of the table
const MEASURES = {
  cores: ["Cores", "used_cores", "cores", (whole) => count(whole, "core")],
  ways: ["Cache ways", "used_ways", "ways", (whole) => count(whole, "way")],
  bandwidth: ["Bandwidth", "used_bandwidth_gbs", "bandwidth_gbs", (whole) => `${number(whole)} GB/s`],
};

export class HeatMap {
  constructor() {
    this.measure = "cores";
    this.chosen = 0; // a node
    this.page = 0; // of the table
    this.range = null; // [first, behind the last] of the nodes shown; null: all
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of nodes",
      "aria-label": "Nodes by use: arrow keys move, Enter opens, Escape shows all. The same is in the table below." });
    this.said = el("p", { class: "hover", role: "status" });
    this.list = el("details", {}, el("summary", { text: "The same as a table" }));
    this.scale = el("span");
    this.whole = button("All nodes", () => this.show(null), { class: "quiet", hidden: true });
    this.legend = el("div", { class: "legend" }, el("span", { text: "0 %" }), el("span", { class: "ramp" }),
      el("span", { text: "100 % in use" }), swatch("var(--warn)", "drained"), swatch("var(--bad)", "down"), this.scale, this.whole);
    this.root = el("div", {}, this.canvas, this.legend, this.said, this.list);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => { this.point(event); this.go(); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("toggle", () => this.fill());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.canvas.parentElement);
  }

  set(nodes) {
    this.nodes = nodes;
    this.draw();
    if (this.list.open) this.fill();
  }

  show(range) {
    this.range = range;
    this.draw();
    this.said.textContent = range ? `nodes ${nodeName(range[0])} to ${nodeName(range[1] - 1)}` : "all nodes";
  }

  /** Which measures this machine has. */
  measures() {
    return Object.entries(MEASURES).filter(([, [, used]]) => this.nodes && this.nodes[used]).map(([key, [title]]) => [key, title]);
  }

  /** The nodes of a cell. */
  cell(place) {
    const [first, behind] = this.shown();
    return [first + place * this.each, Math.min(first + (place + 1) * this.each, behind)];
  }

  shown() { return this.range ?? [0, this.nodes.state.length]; }

  sum(column, first, behind) {
    let total = 0;
    for (let node = first; node < behind; node += 1) total += this.nodes[column][node];
    return total;
  }

  share(first, behind) {
    const [, used, all] = MEASURES[this.measure];
    const whole = this.sum(all, first, behind);
    return whole ? this.sum(used, first, behind) / whole : 0;
  }

  /** How many nodes of a cell are in a state. */
  many(state, first, behind) {
    let found = 0;
    for (let node = first; node < behind; node += 1) if (this.nodes.state[node] === state) found += 1;
    return found;
  }

  /** Cells as large as they can be; where even the least are too many, each is several nodes. */
  layout(width) {
    const [first, behind] = this.shown();
    const most = width < 600 ? 260 : 330;
    const room = Math.max(1, Math.floor(width / LEAST) * Math.floor(most / LEAST));
    this.each = 1;
    while ((behind - first) / this.each > room) this.each *= 2;
    this.cells = Math.ceil((behind - first) / this.each);
    let size = 58;
    while (size > LEAST && Math.ceil(this.cells / Math.floor(width / size)) * size > most) size -= 1;
    this.size = size;
    this.across = Math.max(1, Math.floor(width / size));
    this.scale.textContent = this.each > 1 ? `a cell is ${this.each} nodes` : "";
    this.whole.hidden = !this.range;
  }

  draw() {
    if (!this.nodes || !this.canvas.isConnected) return;
    const width = this.root.clientWidth;
    if (!width) return;
    this.layout(width);
    const { size, across } = this;
    const context = sharp(this.canvas, width, Math.max(size, Math.ceil(this.cells / across) * size));
    const colour = ramp();
    const gap = size > 9 ? 2 : 1;
    const [drained, down, ink, onDark] = ["--warn", "--bad", "--ink", "--accent-ink"].map(style);
    for (let place = 0; place < this.cells; place += 1) {
      const [x, y] = [(place % across) * size, Math.floor(place / across) * size];
      const [first, behind] = this.cell(place);
      const [away, broken] = [this.many(DRAINED, first, behind), this.many(DOWN, first, behind)];
      const share = this.share(first, behind);
      context.fillStyle = broken === behind - first ? down : away + broken === behind - first ? drained : colour(share);
      context.beginPath();
      context.roundRect(x, y, size - gap, size - gap, size > 14 ? 4 : 1);
      context.fill();
      if (this.each > 1 && away + broken && away + broken < behind - first) { // some of them: a strip below
        context.fillStyle = broken ? down : drained;
        context.fillRect(x, y + size - gap - 2, size - gap, 2);
      }
      if (size >= 30) {
        context.fillStyle = away || broken || share > 0.5 ? onDark : ink;
        context.font = `11px ${style("--sans")}`;
        context.textAlign = "center";
        context.fillText(String(first), x + (size - gap) / 2, y + (size - gap) / 2 + 4);
      }
    }
    if (document.activeElement === this.canvas) {
      const place = this.place();
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect((place % across) * size, Math.floor(place / across) * size, size - gap, size - gap);
    }
  }

  /** The cell of the chosen node. */
  place() {
    const [first, behind] = this.shown();
    return Math.floor((Math.min(Math.max(this.chosen, first), behind - 1) - first) / this.each);
  }

  words(first, behind) {
    const one = behind - first === 1;
    const states = one ? [STATES[this.nodes.state[first]]] : STATES.map((name, state) => [this.many(state, first, behind), name])
      .filter(([many]) => many).map(([many, name]) => `${number(many)} ${name}`);
    const parts = [one ? `node ${nodeName(first)}` : `nodes ${nodeName(first)} to ${nodeName(behind - 1)}`, states.join(", ")];
    for (const [, used, all, unit] of Object.values(MEASURES)) {
      if (this.nodes[used]) parts.push(`${number(this.sum(used, first, behind))} of ${unit(this.sum(all, first, behind))}`);
    }
    const tenants = this.sum("tenants", first, behind);
    return [...parts, one ? count(tenants, "job") : `${number(tenants)} times a job on a node`].join(" · ");
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = Math.floor((event.clientY - box.top) / this.size) * this.across + Math.floor((event.clientX - box.left) / this.size);
    if (place >= 0 && place < this.cells) this.choose(place);
  }

  choose(place) {
    const [first, behind] = this.cell(Math.min(Math.max(place, 0), this.cells - 1));
    this.chosen = first;
    this.said.textContent = this.words(first, behind);
    this.draw();
  }

  /** Open a node, or show the nodes of a cell one by one. */
  go() {
    if (this.each === 1) { location.hash = `#/nodes/${this.chosen}`; return; }
    const first = Math.floor(this.chosen / BLOCK) * BLOCK;
    this.show([first, Math.min(first + BLOCK, this.nodes.state.length)]);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across };
    if (event.key in steps) { this.choose(this.place() + steps[event.key]); event.preventDefault(); }
    if (event.key === "Enter") this.go();
    if (event.key === "Escape" && this.range) this.show(null);
  }

  fill() {
    if (!this.list.open) return;
    const all = this.nodes.state.length;
    const columns = [{ title: "Node", cell: (node) => nodeLink(node) }, { title: "State", cell: (node) => STATES[this.nodes.state[node]] },
      ...Object.values(MEASURES).filter(([, used]) => this.nodes[used]).map(([title, used, whole]) => ({ title, number: true,
        cell: (node) => `${number(this.nodes[used][node])} of ${number(this.nodes[whole][node])}` })),
      { title: "Jobs", number: true, cell: (node) => this.nodes.tenants[node] }];
    const first = this.page * ROWS;
    const behind = Math.min(first + ROWS, all);
    const rows = Array.from({ length: behind - first }, (_, place) => first + place);
    const scrolled = this.list.querySelector(".scroll")?.scrollTop || 0;
    const parts = [table(columns, rows, { caption: "Nodes and their use" })];
    if (all > ROWS) parts.push(el("div", { class: "pager" }, pager(first, rows.length, all, 1, (by) => { this.page += by; this.fill(); }, count(all, "node"))));
    this.list.replaceChildren(this.list.firstChild, ...parts);
    this.list.querySelector(".scroll").scrollTop = scrolled;
  }

  close() { this.observer.disconnect(); }
}
