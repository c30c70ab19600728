// Which jobs had which nodes when. Drag or arrow keys pan, wheel or + and - zoom, and what is in sight is there as a table, too.
// raster.js paints the bars.

import { badge, button, card, choice, el, empty, head, jobLink, table } from "./elements.js";
import { Colouring, WAYS } from "./colouring.js";
import { style } from "./colours.js";
import { withPlans } from "./planned.js";
import { Raster } from "./raster.js";
import { count, instant, lasted, nodeName, number, span } from "./words.js";

const LEFT = 58;
const BOTTOM = 26;
const LANES = 8;
const PLANS_MS = 10000; // between two questions about what is planned
const FEW = 1500; // bars that need no heat map, however small they are
const BAR = 60; // square pixels of a usual bar; smaller ones become a heat map
// Not every browser says when it has nothing to do.
const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => 5 }), 30));
const notIdle = window.cancelIdleCallback ?? clearTimeout;

export class Gantt {
  constructor(source, run = null) {
    this.source = source;
    this.run = run;
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "chart of jobs over time",
      "aria-label": "Gantt chart: left and right pan, plus and minus zoom, up and down move over nodes, Home shows all. The jobs in sight are in the table below." });
    this.said = el("p", { class: "hover", role: "status" });
    this.list = el("details", {}, el("summary", { text: "Jobs in sight as a table" }));
    this.legend = el("div", { class: "legend" });
    this.ways = el("div", { class: "row" });
    this.root = el("div", { class: "gantt-box" }, this.ways, this.canvas, this.said, this.legend, this.list);
    this.across = 1; // lanes of a node
    this.frames = []; // instants of the latest frames, for measurements,
    this.costs = []; // and how long each took
    this.listen();
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.root);
  }

  async load() {
    this.ran = await this.source.columns("gantt", this.run === null ? {} : { run: this.run });
    this.joined();
  }

  /** What is planned, asked for when what ran is on the screen; seldom, because the server simulates it. */
  async plan() {
    if (!this.source.live || performance.now() - (this.asked ?? -Infinity) < PLANS_MS) return;
    this.asked = performance.now();
    this.plans = await this.source.ask("gantt/planned").catch(() => null);
    if (this.plans) this.joined();
  }

  /** What ran, with what is planned right of now. */
  joined() {
    this.data = this.plans ? withPlans(this.ran, this.plans) : this.ran;
    const { data } = this;
    this.least = data.from;
    this.most = Math.max(data.until, data.from + 1);
    if (this.from === undefined || this.whole) this.home();
    this.count = data.bar_job.length;
    if (data.shared) this.lanes();
    this.shown();
  }

  /** Jobs that share a node lie beside each other: the first lane that is free on all nodes of the bar. */
  lanes() {
    const { bar_job: job, bar_first: first, bar_count: many, start, end, nodes } = this.data;
    const order = Int32Array.from({ length: this.count }, (_, bar) => bar).sort((a, b) => start[job[a]] - start[job[b]]);
    const busy = Array.from({ length: LANES }, () => new Float64Array(nodes).fill(-Infinity));
    this.lane = new Uint8Array(this.count);
    this.across = 1;
    for (const bar of order) {
      const [low, high, begin] = [first[bar], first[bar] + many[bar], start[job[bar]]];
      let lane = busy.findIndex((until) => { for (let node = low; node < high; node += 1) if (until[node] > begin) return false; return true; });
      if (lane < 0) lane = LANES - 1;
      busy[lane].fill(end[job[bar]], low, high);
      this.lane[bar] = lane;
      this.across = Math.max(this.across, lane + 1);
    }
  }

  home() {
    const most = Math.min(this.most, this.ran.until + Math.max(this.ran.until - this.least, 60)); // no more of the future than of the past
    const edge = (most - this.least) * 0.01;
    [this.from, this.until, this.whole] = [this.least - edge, most + edge, true];
    [this.top, this.bottom] = [0, this.data.nodes];
  }

  shown() {
    this.paint();
    this.redraw();
  }

  /** Colours as chosen and as the theme has them. */
  paint() {
    const { users, size } = this.data;
    const offered = Object.entries(WAYS).filter(([way]) => (way !== "cores" || this.count > FEW) && (way !== "user" || users.length > 1) && (way !== "size" || size.some((one) => one > 1)));
    if (!offered.some(([way]) => way === this.by)) [[this.by]] = offered;
    this.ways.replaceChildren(choice("Colour by", offered, this.by, (way) => { this.by = way; this.shown(); }));
    [this.surface, this.ink, this.font] = [style("--surface"), style("--ink-soft"), `11px ${style("--sans")}`];
    this.colouring = new Colouring(this.by, this.data);
    this.raster = new Raster(this.data, this.colouring, this.lane, this.across, this.plans ? this.ran.until : Infinity);
    this.heat = null;
  }

  /** Bars or a heat map: by the size that a usual bar has on the screen. */
  choose(perSecond, perNode) {
    const heat = this.count > FEW && this.raster.usual * perSecond * perNode < BAR;
    if (heat === this.heat) return;
    this.heat = heat;
    const { plans } = this;
    this.legend.replaceChildren(...this.colouring.legend(heat).filter(Boolean), heat ? el("span", { text: `heat map${this.colouring.cell}; zoom in or click to see jobs` }) : "",
      plans ? el("span", { text: `right of now, pale: planned, if every job takes its requested time${plans.left_out ? `; ${count(plans.left_out, "later job")} left out` : ""}${plans.why ? `; ${plans.why}` : ""}` }) : "");
  }

  redraw() {
    if (this.waiting || !this.data) return;
    this.waiting = requestAnimationFrame((at) => { this.waiting = 0; this.frames.push(at); if (this.frames.length > 600) this.frames.shift(); this.measured(); });
  }

  /** One frame, and what it cost this thread, in milliseconds. */
  measured() {
    const begun = performance.now();
    this.draw();
    this.costs.push(performance.now() - begun);
    if (this.costs.length > 600) this.costs.shift();
  }

  /** Nothing to do: what lies ahead is painted, so that it is there when it comes into sight. */
  prepare(w, h) {
    notIdle(this.idle);
    this.idle = whenIdle((left) => {
      if (!this.waiting && this.raster.prepare(Math.min(left.timeRemaining(), 8), w, h, this.view())) this.prepare(w, h);
    });
  }

  view() { return { from: this.from, until: this.until, top: this.top, bottom: this.bottom }; }

  draw() {
    const width = this.root.clientWidth;
    if (!width || !this.data) return;
    const height = Math.min(Math.max(160, this.data.nodes * 24 + BOTTOM), innerWidth < 640 ? 320 : 440);
    const ratio = Math.min(devicePixelRatio || 1, 1.5);
    const [w, h, left, wide, high] = [width - LEFT, height - BOTTOM, LEFT, width, height].map((size) => Math.max(Math.round(size * ratio), 1));
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      [this.canvas.width, this.canvas.height] = [wide, high];
      this.canvas.style.height = `${height}px`;
      this.context = this.canvas.getContext("2d", { alpha: false });
    }
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.choose(w / ratio / (this.until - this.from), h / ratio / (this.bottom - this.top));
    const whole = this.raster.draw(context, left, w, h, this.view(), this.heat);
    context.fillStyle = this.surface;
    context.fillRect(0, 0, left, high);
    context.fillRect(0, h, wide, high - h);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.axes(context, width, height);
    this.size = { width, height };
    if (whole) this.prepare(w, h);
    else this.redraw();
  }

  axes(context, width, height) {
    context.fillStyle = this.ink;
    context.font = this.font;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const nodes = this.bottom - this.top;
    const steps = Math.max(1, Math.ceil(nodes / Math.max(1, Math.floor((height - BOTTOM) / 26))));
    for (let node = Math.ceil(this.top / steps) * steps; node < this.bottom; node += steps) {
      context.fillText(`node ${nodeName(node)}`, LEFT - 6, Math.max(((node + 0.5 - this.top) / nodes) * (height - BOTTOM), 7));
    }
    context.textBaseline = "alphabetic";
    const marks = Math.max(2, Math.floor((width - LEFT) / 150));
    const near = this.source.clock === "run" && (this.until - this.from) * 12 < this.from; // where instants would look alike
    for (let at = 0; at <= marks; at += 1) {
      const x = LEFT + ((width - LEFT) * at) / marks;
      context.textAlign = at === 0 ? "left" : at === marks ? "right" : "center";
      const later = ((this.until - this.from) * at) / marks;
      context.fillText(at && near ? `+${span(later)}` : instant(this.from + later, this.source.clock), x, height - 8);
    }
    const now = this.plans ? this.ran.until : this.source.live || this.run !== null ? NaN : this.source.at;
    const x = LEFT + ((now - this.from) / (this.until - this.from)) * (width - LEFT);
    if (x >= LEFT && x <= width) context.fillRect(Math.min(x, width - 1.5), 0, 1.5, height - BOTTOM);
  }

  // ---- moving ------------------------------------------------------------------------------------------------------

  show(from, until) {
    const least = 1;
    if (until - from < least) { const middle = (from + until) / 2; from = middle - least / 2; until = middle + least / 2; }
    const most = (this.most - this.least) * 1.2;
    if (until - from > most) { this.home(); } else [this.from, this.until, this.whole] = [from, until, false];
    this.changed();
  }

  changed() {
    this.redraw();
    this.later();
  }

  moved(from, until) {
    this.show(from, until);
    if (this.onMove) this.onMove(this.from, this.until);
  }

  pan(share) {
    const by = (this.until - this.from) * share;
    this.moved(this.from + by, this.until + by);
  }

  zoom(factor, share = 0.5) {
    const at = this.from + (this.until - this.from) * share;
    this.moved(at - (at - this.from) * factor, at + (this.until - at) * factor);
  }

  panNodes(by) { this.nodesFrom(this.top + by, this.bottom - this.top); }

  zoomNodes(factor, share = 0.5) {
    const [many, { nodes }] = [this.bottom - this.top, this.data];
    const wanted = Math.min(Math.max(many * factor, Math.min(4, nodes)), nodes);
    this.nodesFrom(this.top + (many - wanted) * share, wanted);
  }

  nodesFrom(top, many) {
    this.top = Math.max(Math.min(top, this.data.nodes - many), 0);
    this.bottom = this.top + many;
    this.changed();
  }

  listen() {
    const pointers = new Map();
    const share = (event) => this.place(event).along;
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) this.zoomNodes(Math.exp((event.deltaY || event.deltaX) * 0.002), this.place(event).down);
      else this.zoom(Math.exp(event.deltaY * 0.0015), Math.min(Math.max(share(event), 0), 1));
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => { this.canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); this.dragged = 0; });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) { this.hover(event); return; }
      if (pointers.size === 1) {
        this.dragged += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
        this.pan((before.clientX - event.clientX) / Math.max(this.root.clientWidth - LEFT, 1));
        const nodes = this.bottom - this.top;
        if (nodes < this.data.nodes) this.panNodes(((before.clientY - event.clientY) / (this.size.height - BOTTOM)) * nodes);
      } else {
        const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
        const [was, is] = [Math.abs(before.clientX - other.clientX), Math.abs(event.clientX - other.clientX)];
        if (was > 4 && is > 4) this.zoom(was / is, (share(event) + share(other)) / 2);
      }
      pointers.set(event.pointerId, event);
    });
    for (const kind of ["pointerup", "pointercancel"]) this.canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
    this.canvas.addEventListener("click", (event) => {
      if (this.dragged >= 5) return;
      if (this.heat) { this.zoomNodes(0.3, this.place(event).down); this.zoom(0.3, share(event)); return; }
      const bar = this.at(event);
      if (bar >= 0) location.hash = `#/jobs/${encodeURIComponent(this.data.ids[this.data.bar_job[bar]])}`;
    });
    this.canvas.addEventListener("keydown", (event) => {
      const nodes = this.bottom - this.top;
      const keys = { ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7),
        ArrowUp: () => this.panNodes(-nodes * 0.1), ArrowDown: () => this.panNodes(nodes * 0.1), PageUp: () => this.zoomNodes(0.7), PageDown: () => this.zoomNodes(1 / 0.7),
        Home: () => { this.home(); this.changed(); } };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    this.list.addEventListener("toggle", () => this.fillTable());
  }

  /** Where a pointer is: an instant and a node, and which shares of the width and the height. */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const [along, down] = [(event.clientX - box.left - LEFT) / (this.size.width - LEFT), (event.clientY - box.top) / (this.size.height - BOTTOM)];
    return { along, down, when: this.from + along * (this.until - this.from), node: this.top + down * (this.bottom - this.top) };
  }

  /** The bar under the pointer; -1: none. The last one painted lies on top. */
  at(event) {
    const { when, node } = this.place(event);
    const laned = this.across > 1 && (this.size.height - BOTTOM) / (this.bottom - this.top) >= 2 * this.across;
    const near = ((this.until - this.from) / this.size.width) * 1.5;
    const { bar_job: job, bar_first: first, bar_count: many, start, end } = this.data;
    const bars = this.raster.near(when);
    for (let at = bars.length - 1; at >= 0; at -= 1) {
      const bar = bars[at];
      const one = job[bar];
      if (laned && Math.floor((node % 1) * this.across) !== this.lane[bar]) continue;
      if (start[one] - near <= when && when <= end[one] + near && first[bar] <= node && node < first[bar] + many[bar]) return bar;
    }
    return -1;
  }

  hover(event) {
    if (!this.size) return;
    if (this.heat) { this.said.textContent = this.cell(event); return; }
    const bar = this.at(event);
    this.said.textContent = bar < 0 ? "" : this.words(this.data.bar_job[bar]);
  }

  /** A cell of the heat map in words. */
  cell(event) {
    const { when, node, down } = this.place(event);
    if (when < this.from || down > 1) return "";
    const [first, seconds] = [Math.floor(node), (this.until - this.from) / (this.size.width - LEFT)];
    const last = Math.min(first + Math.ceil((this.bottom - this.top) / (this.size.height - BOTTOM)), this.data.nodes);
    return `node ${nodeName(first)}${last > first + 1 ? ` to ${nodeName(last - 1)}` : ""} · ${instant(when, this.source.clock)} · ${this.raster.words(when, when + seconds, first, last)}`;
  }

  words(job) {
    const { ids, programs, program, start, end, submit, state, states, real } = this.data;
    const named = `job ${ids[job]} · ${programs[program[job]] || "no program"}`;
    if (job >= (real ?? ids.length)) return start[job] === this.ran.until ? `${named} · running, ends within ${span(end[job] - start[job])} by its requested time`
      : `${named} · planned to start in ${span(start[job] - this.ran.until)}, at ${instant(start[job], this.source.clock)}, for ${span(end[job] - start[job])} at most`;
    return `${named} · ${states[state[job]]} · waited ${lasted(submit[job], start[job])}, ran ${lasted(start[job], end[job])} from ${instant(start[job], this.source.clock)}`;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.said.textContent = `${instant(this.from, this.source.clock)} to ${instant(this.until, this.source.clock)}: ${count(this.inSight(), "job")} in sight`; this.fillTable(); }, 250);
  }

  inSight() {
    const { start, end, counted } = this.data;
    let found = 0;
    for (let job = 0; job < (counted ?? start.length); job += 1) if (start[job] <= this.until && end[job] >= this.from) found += 1;
    return found;
  }

  fillTable() {
    if (!this.list.open) return;
    const { bar_job: job, bar_first: first, bar_count: many, start, end, ids, programs, program, state, states } = this.data;
    const rows = [];
    const seen = new Set();
    for (let bar = 0; bar < this.count && rows.length < 200; bar += 1) {
      const one = job[bar];
      if (!seen.has(one) && start[one] <= this.until && end[one] >= this.from && first[bar] < this.bottom && first[bar] + many[bar] > this.top) { seen.add(one); rows.push(one); }
    }
    const columns = [{ title: "Job", cell: (one) => jobLink(ids[one]) }, { title: "Program", cell: (one) => programs[program[one]] || "" }, { title: "State", cell: (one) => badge(states[state[one]]) },
      { title: "Start", cell: (one) => instant(start[one], this.source.clock) }, { title: "Length", number: true, cell: (one) => lasted(start[one], end[one]) }];
    this.list.replaceChildren(this.list.firstChild, table(columns, rows, { caption: "Jobs in sight (at most 200)" }));
  }

  close() { this.observer.disconnect(); clearTimeout(this.timer); cancelAnimationFrame(this.waiting); notIdle(this.idle); }
}

export async function open(root, source) {
  const chart = new Gantt(source);
  await chart.load();
  root.append(head("Gantt", el("p", { text: `${count(chart.data.ids.length, "job")} on ${count(chart.data.nodes, "node")}` })),
    card("Which jobs had which nodes when", { aside: el("div", { class: "row" }, [["−", "Zoom out", () => chart.zoom(1 / 0.6)], ["+", "Zoom in", () => chart.zoom(0.6)], ["◀", "Earlier", () => chart.pan(-0.25)], ["▶", "Later", () => chart.pan(0.25)],
      ["All", "Show all of it", () => { chart.home(); chart.changed(); }]].map(([text, label, act]) => button(text, act, { "aria-label": label }))),
    note: "Drag to pan, wheel to zoom, Shift and wheel for fewer nodes. Every bar is a job; a click opens it. Where nodes are shared, show fewer nodes to see the jobs side by side." },
    chart.data.ids.length ? chart.root : empty("No job has run yet.")));
  root.gantt = chart;
  chart.plan();
  let last = performance.now();
  return { title: "Gantt", shown: () => chart.shown(), redraw: () => chart.shown(), close: () => chart.close(),
    refresh: async () => { if (!source.live) { chart.redraw(); return; } if (performance.now() - last > 2000) { last = performance.now(); await chart.load(); chart.plan(); } } };
}
