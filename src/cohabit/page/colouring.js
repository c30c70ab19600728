// What colours of the Gantt chart say. A bar has the colour of its job. Of many jobs, a cell of a heat map has the mean of its
// jobs, or the colour of those that have most of it; both by cores, as in report.html (report/gantt_heat.py).

import { el, swatch } from "./elements.js";
import { mixed, packedColour, SERIES, style } from "./colours.js";
import { count, percent, span } from "./words.js";

export const WAYS = { cores: "Cores", program: "Program", size: "Size", wait: "Wait", user: "User" };
const BAD = new Set(["failed", "killed", "lost"]);
const IDLE = 0.005; // a cell that is used less passes for idle
const SHADES = 255;
const PALE = 0.42; // of its colour, what is planned

export class Colouring {
  /** `by`: a key of WAYS; `data`: columns of the chart. */
  constructor(by, data) {
    const idle = style("--idle");
    Object.assign(this, { by, data, idle, ground: packedColour(idle) });
    const [low, high] = ["--heat-0", "--heat-1"].map((name) => packedColour(style(name)));
    const least = by === "cores" ? 0 : 0.2; // a small job is no idle node
    this.ramp = Uint32Array.from({ length: SHADES + 1 }, (_, at) => mixed(high, low, least + ((1 - least) * at) / SHADES));
    if (by === "size") this.graded(data.size);
    else if (by === "wait") this.graded(data.start.map((at, job) => at - data.submit[job]));
    else if (by === "user") this.grouped(data.users, data.user, "no user known");
    else this.grouped(data.programs, data.program, "no program named", BAD);
    for (let job = data.real ?? Infinity; job < this.colours.length; job += 1) this.colours[job] = mixed(this.colours[job], this.ground, PALE);
  }

  /** By a value of each job, as a logarithm between 0 and 1. */
  graded(of) {
    this.cell = ": the mean of the jobs in each cell, by cores";
    this.most = of.reduce((most, one) => Math.max(most, one), 2);
    this.value = Float64Array.from(of, (one) => Math.log(Math.max(one, 1)) / Math.log(this.most));
    this.colours = Uint32Array.from(this.value, (value) => this.ramp[Math.round(value * SHADES)]);
  }

  /** By name: those with most jobs have a colour of their own. */
  grouped(names, code, unnamed, failed = new Set()) {
    this.cell = this.by === "cores" ? "" : ": the colour of most cores in each cell";
    const jobs = names.map(() => 0);
    for (const one of code) jobs[one] += 1;
    const own = [...names.keys()].sort((a, b) => jobs[b] - jobs[a]).slice(0, SERIES.length).sort((a, b) => a - b);
    const others = own.length;
    const { state, states } = this.data;
    this.group = Uint8Array.from(code, (one, job) => (failed.has(states[state[job]]) ? others + 1 : own.includes(one) ? own.indexOf(one) : others));
    this.names = [...own.map((one) => names[one] || unnamed), names.length > others ? count(names.length - others, "other") : unnamed, "failed, killed or lost"];
    this.hex = [...SERIES.slice(0, others), "#85898c", "#b3261e"];
    this.fills = this.hex.map((hex) => packedColour(hex));
    this.colours = Uint32Array.from(this.group, (one) => this.fills[one]);
  }

  /** What colours mean, of bars or of a heat map. */
  legend(heat) {
    const ramp = (low, high) => [el("span", { text: low }), el("span", { class: "ramp" }), el("span", { text: high })];
    if (heat && this.by === "cores") return ramp("0 %", "100 % of cores in use");
    if (this.by === "size") return ramp("1 node", count(this.most, "node"));
    if (this.by === "wait") return ramp("waited 1 s or less", span(this.most));
    return [...new Set(this.group)].sort((a, b) => a - b).map((one) => swatch(this.hex[one], this.names[one]));
  }

  // ---- the heat map ------------------------------------------------------------------------------------------------

  /** Sums of so many cells: of cores in use, and times a value; or of the cores of each group. */
  sums(cells) { return Array.from({ length: this.by === "cores" ? 1 : this.value ? 2 : this.fills.length }, () => new Float32Array(cells)); }

  /** Add a job that has the cells from `x0` to `x1` and from `y0` to `y1`, the outer ones in part. */
  add(sums, width, job, x0, x1, y0, y1) {
    const grouped = sums.length > 2;
    const sum = sums[grouped ? this.group[job] : 0];
    const value = sums.length === 2 ? this.value[job] : 0;
    for (let y = Math.floor(y0); y < y1; y += 1) {
      const part = this.data.share[job] * (Math.min(y + 1, y1) - Math.max(y, y0));
      for (let x = Math.floor(x0), at = y * width + x; x < x1; x += 1, at += 1) {
        const cores = part * (Math.min(x + 1, x1) - Math.max(x, x0));
        sum[at] += cores;
        if (value) sums[1][at] += cores * value;
      }
    }
  }

  /** A share or mean between 0 and 1, or the number of a group; -1: the cell is idle. */
  level(sums, cell) {
    if (sums.length > 2) {
      let [most, found] = [IDLE, -1];
      for (let one = 0; one < sums.length; one += 1) if (sums[one][cell] > most) { most = sums[one][cell]; found = one; }
      return found;
    }
    const used = sums[0][cell];
    return used < IDLE ? -1 : Math.min(this.value ? sums[1][cell] / used : used, 1);
  }

  /** All cells in their colours, each `step` pixels wide and high; those from column `now` on are planned. */
  paint(pixels, sums, width, step, now) {
    for (let cell = 0; cell < sums[0].length; cell += 1) {
      const level = this.level(sums, cell);
      if (level < 0) continue;
      let colour = sums.length > 2 ? this.fills[level] : this.ramp[Math.round(level * SHADES)];
      if (cell % width >= now) colour = mixed(colour, this.ground, PALE);
      const corner = Math.floor(cell / width) * step * step * width + (cell % width) * step;
      for (let row = 0; row < step; row += 1) pixels.fill(colour, corner + row * step * width, corner + row * step * width + step);
    }
  }

  /** A single cell in words. */
  words(sums) {
    const level = this.level(sums, 0);
    if (level < 0) return "idle";
    if (this.by === "cores") return `${percent(level)} of cores in use`;
    if (this.by === "size") return `jobs of ${count(Math.round(this.most ** level), "node")}`;
    return this.by === "wait" ? `jobs that waited ${span(this.most ** level)}` : `most cores: ${this.names[level]}`;
  }
}
