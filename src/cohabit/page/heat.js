// Every node as one cell, coloured by how much of it is in use. Arrow keys walk over it, Enter opens a node, and the
// same is there as a table for those who cannot see it.

import { el, nodeLink, table } from "./elements.js";
import { ramp, sharp, style } from "./colours.js";
import { number } from "./words.js";

const STATES = ["idle", "busy", "shared", "drained", "down"];
export const MEASURES = {
  cores: ["Cores", "used_cores", "cores", "cores"],
  ways: ["Cache ways", "used_ways", "ways", "ways"],
  bandwidth: ["Bandwidth", "used_bandwidth_gbs", "bandwidth_gbs", "GB/s"],
};

export class HeatMap {
  constructor() {
    this.measure = "cores";
    this.chosen = 0;
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of nodes",
      "aria-label": "Nodes by use: arrow keys move, Enter opens a node. The same is in the table below." });
    this.said = el("p", { class: "hover", role: "status" });
    this.list = el("details", {}, el("summary", { text: "The same as a table" }));
    this.legend = el("div", { class: "legend" }, el("span", { text: "0 %" }), el("span", { class: "ramp" }),
      el("span", { text: "100 % in use" }), this.sign("--warn", "drained"), this.sign("--bad", "down"));
    this.root = el("div", {}, this.canvas, this.legend, this.said, this.list);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => { this.point(event); this.go(); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("toggle", () => this.fill());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.canvas.parentElement);
  }

  sign(colour, text) {
    return el("span", {}, el("span", { class: "swatch", style: { "--colour": `var(${colour})` } }), text);
  }

  set(nodes) {
    this.nodes = nodes;
    this.draw();
    if (this.list.open) this.fill();
  }

  /** Which measures this machine has. */
  measures() {
    return Object.entries(MEASURES).filter(([, [, used]]) => this.nodes && this.nodes[used]).map(([key, [title]]) => [key, title]);
  }

  share(node) {
    const [, used, all] = MEASURES[this.measure];
    const whole = this.nodes[all][node];
    return whole ? this.nodes[used][node] / whole : 0;
  }

  draw() {
    if (!this.nodes || !this.canvas.isConnected) return;
    const count = this.nodes.state.length;
    const width = this.root.clientWidth;
    if (!width) return;
    const most = width < 600 ? 260 : 330;
    let size = 58;
    while (size > 5 && Math.ceil(count / Math.floor(width / size)) * size > most) size -= 1;
    this.size = size;
    this.across = Math.max(1, Math.floor(width / size));
    const height = Math.max(size, Math.ceil(count / this.across) * size);
    const context = sharp(this.canvas, width, height);
    const colour = ramp();
    const gap = size > 9 ? 2 : 1;
    const [drained, down, ink, onDark] = ["--warn", "--bad", "--ink", "--accent-ink"].map(style);
    for (let node = 0; node < count; node += 1) {
      const x = (node % this.across) * size;
      const y = Math.floor(node / this.across) * size;
      const state = this.nodes.state[node];
      context.fillStyle = state === 4 ? down : state === 3 ? drained : colour(this.share(node));
      context.beginPath();
      context.roundRect(x, y, size - gap, size - gap, size > 14 ? 4 : 1);
      context.fill();
      if (size >= 30) {
        context.fillStyle = state > 2 || this.share(node) > 0.5 ? onDark : ink;
        context.font = `11px ${style("--sans")}`;
        context.textAlign = "center";
        context.fillText(String(node), x + (size - gap) / 2, y + (size - gap) / 2 + 4);
      }
    }
    if (document.activeElement === this.canvas) {
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect((this.chosen % this.across) * size, Math.floor(this.chosen / this.across) * size, size - gap, size - gap);
    }
  }

  words(node) {
    const parts = [`node ${node}`, STATES[this.nodes.state[node]]];
    for (const [, used, all, unit] of Object.values(MEASURES)) {
      if (this.nodes[used]) parts.push(`${number(this.nodes[used][node])} of ${number(this.nodes[all][node])} ${unit}`);
    }
    const tenants = this.nodes.tenants[node];
    return [...parts, tenants === 1 ? "1 job" : `${tenants} jobs`].join(" · ");
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const node = Math.floor((event.clientY - box.top) / this.size) * this.across + Math.floor((event.clientX - box.left) / this.size);
    if (node >= 0 && node < this.nodes.state.length) this.choose(node);
  }

  choose(node) {
    this.chosen = Math.min(Math.max(node, 0), this.nodes.state.length - 1);
    this.said.textContent = this.words(this.chosen);
    this.draw();
  }

  go() { location.hash = `#/nodes/${this.chosen}`; }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across };
    if (event.key in steps) { this.choose(this.chosen + steps[event.key]); event.preventDefault(); }
    if (event.key === "Enter") this.go();
  }

  fill() {
    if (!this.list.open) return;
    const columns = [{ title: "Node", cell: (node) => nodeLink(node) }, { title: "State", cell: (node) => STATES[this.nodes.state[node]] },
      ...Object.values(MEASURES).filter(([, used]) => this.nodes[used]).map(([title, used, all]) => ({ title, number: true,
        cell: (node) => `${number(this.nodes[used][node])} of ${number(this.nodes[all][node])}` })),
      { title: "Jobs", number: true, cell: (node) => this.nodes.tenants[node] }];
    const rows = [...this.nodes.state.keys()].slice(0, 2000);
    this.list.replaceChildren(this.list.firstChild, table(columns, rows, { caption: "Nodes and what is in use of them" }));
  }

  close() { this.observer.disconnect(); }
}
