// All nodes, and one of them: who shares it, which cache ways each job may fill, and the bandwidth they booked.

import { badge, card, choice, el, empty, facts, head, jobOf, swatch, table, toast } from "./elements.js";
import { HeatMap } from "./heat.js";
import { legend, lineChart } from "./charts.js";
import { seriesColour } from "./colours.js";
import { count, gigabytes, instant, nodeName, number, percent } from "./words.js";

export async function open(root, source, [name]) {
  return name === undefined || name === "" ? all(root, source) : one(root, source, Number(name));
}

async function all(root, source) {
  const heat = new HeatMap();
  const load = async () => heat.set((await source.ask("overview")).nodes);
  await load();
  heat.list.open = true;
  const measures = heat.measures();
  root.append(head("Nodes"),
    card("In use", { aside: measures.length > 1 ? choice("What is shown", measures, heat.measure,
      (measure) => { heat.measure = measure; heat.draw(); }) : null }, heat.root));
  return { title: "Nodes", refresh: load, shown: () => heat.draw(), redraw: () => heat.draw(), close: () => heat.close() };
}

/** Ways as boxes: a filled one may be filled with the job's data. */
function masks(told) {
  if (!told.ways) return empty("The cache of this node is not divided into ways.", "Where the processor offers cache allocation (resctrl), the ways of every job are drawn here.");
  if (!told.tenants.length) return empty("No job is here: all ways are free.");
  if (!told.divided) return empty("All jobs here share the cache.", "The policy does not divide it: every job may fill all of it.");
  return el("div", { class: "mask" }, told.tenants.map((tenant, index) => el("div", { class: "lane" }, jobOf(tenant),
    el("div", { class: "ways", role: "img", style: { "--colour": seriesColour(index) },
      "aria-label": `ways ${tenant.first_way} to ${tenant.first_way + tenant.ways - 1} of ${told.ways}` },
    Array.from({ length: told.ways }, (_, way) => el("span", {
      class: way >= tenant.first_way && way < tenant.first_way + tenant.ways ? "on" : "" }))),
    el("span", { class: "number", text: `${tenant.ways} of ${told.ways}` }))));
}

function stack(told, amount, whole, words) {
  const parts = told.tenants.map((tenant, index) => [tenant, amount(tenant), seriesColour(index)]);
  const used = parts.reduce((sum, [, value]) => sum + value, 0);
  return el("div", {}, el("div", { class: "stack", role: "img", "aria-label": `${number(used)} of ${words(whole)}` },
    parts.map(([, value, colour]) => el("span", { style: { "--share": `${(100 * value) / Math.max(whole, used)}%`, "--colour": colour } }))),
  el("div", { class: "legend" }, parts.map(([tenant, value, colour]) => swatch(colour, jobOf(tenant), ` ${words(value)}`)),
  el("strong", { text: `${number(used)} of ${words(whole)} (${percent(used / whole)})` })));
}

function bandwidth(told) {
  const curve = told.bandwidth_curve;
  if (!curve.length) return empty("The bandwidth of this node is not known.", "cohabit doctor says how to measure it.");
  const cores = told.tenants.reduce((sum, tenant) => sum + tenant.cores, 0);
  const booked = told.tenants.reduce((sum, tenant) => sum + tenant.bandwidth_gbs, 0);
  const whole = curve.at(-1)[1];
  const lines = [{ name: "what the cores can draw", colour: "#2f7f86", points: [[0, 0], ...curve], fill: true },
    { name: "booked", colour: "#b5524a", points: [[0, booked], [told.cores, booked]], dash: "5 3" },
    { name: "cores in use", colour: "#8a6d4b", points: [[cores, 0], [cores, whole]], dash: "2 3" }];
  const steps = [4, 3, 2].find((one) => told.cores % one === 0) ?? 1; // marks at whole cores only
  return el("div", {}, stack(told, (tenant) => tenant.bandwidth_gbs, whole, (value) => `${number(value)} GB/s`),
    lineChart({ lines, xLabel: (x) => count(Math.round(x), "core"), yLabel: (y) => `${number(y)}`, height: 170, xTicks: steps + 1,
      words: `${number(booked)} GB/s booked; ${number(whole)} GB/s at most with ${count(told.cores, "core")}.` }), legend(lines));
}

async function one(root, source, node) {
  let told = null;
  let asked = 0;
  const act = (action) => el("button", { type: "button", text: action === "drain" ? "Drain" : "Resume", on: { click: async () => {
    try {
      await source.change("POST", `nodes/${node}/${action}`);
      toast(`${action === "drain" ? "Drained" : "Resumed"}: node ${nodeName(node)}`);
      await load();
    } catch (error) { toast(error.message, true); }
  } } });
  const load = async () => {
    const mine = ++asked;
    const answer = await source.ask(`nodes/${node}`);
    if (mine !== asked) return; // an older answer that comes late: a newer one is on its way, or here
    told = answer;
    const columns = [{ title: "Job", cell: jobOf }, { title: "Program", cell: (tenant) => tenant.program || "" },
      { title: "State", cell: (tenant) => badge(tenant.state) }, { title: "Cores", number: true, cell: (tenant) => number(tenant.cores) },
      { title: "Ways booked", number: true, cell: (tenant) => tenant.booked_ways || "–" },
      { title: "Bandwidth", number: true, cell: (tenant) => (tenant.bandwidth_gbs ? `${number(tenant.bandwidth_gbs)} GB/s` : "–") },
      { title: "Since", cell: (tenant) => instant(tenant.started_at, source.clock) }];
    root.replaceChildren(
      head(`Node ${nodeName(node)}`, badge(told.state),
        el("p", { text: `${count(told.cores, "core")}${told.ways ? `, ${count(told.ways, "cache way")}` : ""}` }),
        el("div", { class: "aside" },
          node > 0 ? el("a", { href: `#/nodes/${node - 1}`, text: "← before" }) : null,
          node + 1 < source.about.nodes ? el("a", { href: `#/nodes/${node + 1}`, text: "next →" }) : null, told.actions.map(act))),
      card("Jobs here", {}, told.tenants.length ? table(columns, told.tenants, { caption: "Jobs on this node" })
        : empty("No job is here.", told.state === "up" ? "The node is free for the next job that fits." : "Nothing is started here until the node is resumed.")),
      el("div", { class: "half" }, card("Cores", {}, stack(told, (tenant) => tenant.cores, told.cores, (value) => count(value, "core")))),
      el("div", { class: "half" }, card("About it", {}, facts([["Memory", told.memory_bytes ? gigabytes(told.memory_bytes) : "not known"],
        ["Fewest ways of a job", told.ways ? told.min_ways : null],
        ["Closed to jobs that would run into the window", (told.windows || []).map((one) =>
          `${one.name}: ${instant(one.begin_at, source.clock)} to ${instant(one.end_at, source.clock)}`).join("; ")],
        ["Server", told.domains > 1 ? `${told.server}, which is divided into ${told.domains} nodes` : null]]))),
      el("div", { class: "half" }, card("Cache ways", { note: told.divided ? "Which ways each job may fill. Jobs in the same ways share them." : "" }, masks(told))),
      el("div", { class: "half" }, card("Memory bandwidth", { note: "Booked by jobs, against the node's bandwidth." }, bandwidth(told))));
  };
  await load();
  return { title: `Node ${nodeName(node)}`, refresh: load };
}
