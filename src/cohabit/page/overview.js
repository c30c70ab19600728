// Everything at a glance: how much of the machine is in use, who waits, and how many jobs come through.

import { card, choice, el, head } from "./elements.js";
import { HeatMap } from "./heat.js";
import { JobList, submitButton } from "./jobs.js";
import { lineChart } from "./charts.js";
import { count, instant, number, percent, span } from "./words.js";

function tile(label, value, more, share = null) {
  return el("div", { class: "tile" }, el("div", { class: "label", text: label }), el("div", { class: "value", text: value }),
    share === null ? null : el("div", { class: "meter", "aria-hidden": "true" },
      el("span", { style: { "--share": `${Math.min(100 * share, 100).toFixed(1)}%` } })),
    el("div", { class: "more", text: more }));
}

const sum = (column) => column.reduce((all, one) => all + one, 0);

function tiles(seen) {
  const { nodes, counts } = seen;
  const [used, all] = [sum(nodes.used_cores), sum(nodes.cores)];
  const state = (code) => nodes.state.filter((one) => one === code).length;
  const away = [[state(3), "drained"], [state(4), "down"]].filter(([many]) => many).map(([many, word]) => `${many} ${word}`);
  const found = [tile("Cores in use", percent(used / all), `${number(used)} of ${number(all)}`, used / all)];
  for (const [title, key, unit] of [["Cache ways booked", "ways", ""], ["Bandwidth booked", "bandwidth_gbs", " GB/s"]]) {
    if (!nodes[`used_${key}`]) continue;
    const [booked, whole] = [sum(nodes[`used_${key}`]), sum(nodes[key])];
    found.push(tile(title, percent(booked / whole), `${number(booked)} of ${number(whole)}${unit}`, booked / whole));
  }
  found.push(tile("Running", number(counts.running), `on ${count(nodes.tenants.filter(Boolean).length, "node")}`));
  found.push(tile("Waiting", number(counts.queued + counts.held), counts.held ? `${counts.queued ? number(counts.held) : "all"} of them held` : "none held"));
  found.push(tile("Nodes", number(nodes.state.length), [[state(0), "idle"], [state(1), "in use"], [state(2), "shared"]].filter(([many]) => many).map(([many, word]) => `${number(many)} ${word}`).concat(away).join(", ")));
  return found;
}

function flow(told, clock) {
  const at = (place) => told.from + place * told.step_s;
  const panel = (title, colour, values, words) => el("div", {}, el("h3", { text: title }),
    lineChart({ lines: [{ name: title, colour, points: values.map((value, place) => [at(place), value]), fill: true }], width: 400, height: 118, whole: true,
      xLabel: (x) => instant(x, clock), words, xTicks: 3, step: true }));
  const total = sum(told.ended);
  const words = `From ${instant(told.from, clock)}: ${count(total, "job")} ended, ${number(told.waiting_at_end)} waiting at the end.`;
  return el("div", {}, panel(`Jobs ended in each ${span(told.step_s)}`, "#2f7f86", told.ended, `${count(total, "job")} ended.`),
    panel("Jobs waiting", "#d08a2e", told.waiting, `At most ${number(Math.max(...told.waiting))} waiting, ${number(told.waiting_at_end)} at the end.`),
    el("p", { class: "hover", text: words }));
}

export async function open(root, source) {
  const heat = new HeatMap();
  const list = new JobList(source, { most: 15 });
  const numbers = el("div", { class: "tiles" });
  const throughput = el("div");
  const pick = el("div");
  const { about } = source;
  let seen = null;
  let asked = 0;
  const series = async () => {
    asked = performance.now();
    throughput.replaceChildren(flow(await source.ask("series"), source.clock));
  };
  const load = async () => {
    [seen] = await Promise.all([source.ask("overview"), list.load()]);
    numbers.replaceChildren(...tiles(seen));
    heat.set(seen.nodes);
  };
  await load();
  const measures = heat.measures();
  heat.list.open = about.nodes <= 12 && innerWidth > 980;
  if (measures.length > 1) {
    pick.append(choice("What is shown", measures, heat.measure, (measure) => { heat.measure = measure; heat.draw(); }));
  }
  root.append(
    head(about.title,
      el("p", { text: `${count(about.nodes, "node")}, ${count(about.cores, "core")} · ${about.policy}` }),
      el("div", { class: "aside" }, submitButton(source))),
    numbers,
    el("div", { class: "two-thirds" }, card("Nodes", { aside: pick }, heat.root)),
    el("div", { class: "third" }, card("Throughput and queue", {}, throughput)),
    card("Queue", { aside: el("a", { href: "#/jobs", text: "All jobs" }) }, list.box, list.pager));
  series();
  return {
    title: "Overview",
    shown: () => heat.draw(),
    redraw: () => heat.draw(),
    refresh: async () => { await load(); if (!source.live || performance.now() - asked > 5000) await series(); },
    close: () => heat.close(),
  };
}
