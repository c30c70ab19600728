// What was measured of programs: their class, curves against cache ways, and how far their exploration has come.

import { card, el, empty, facts, head, table } from "./elements.js";
import { lineChart, legend } from "./charts.js";
import { seriesColour } from "./colours.js";
import { number, percent, span } from "./words.js";

const curve = (one, key) => (one[key] ? one[key][0].map((ways, at) => [ways, one[key][1][at]]) : []);

function picture(program, key, title, unit) {
  const lines = program.scales.filter((one) => one[key]).map((one, index) => ({ name: `scale ${one.scale}`, colour: seriesColour(index),
    points: curve(one, key), dots: true }));
  if (!lines.length) return null;
  const last = lines[0].points.at(-1);
  return el("div", {}, el("h3", { text: title }), lineChart({ lines, width: 420, height: 150, xLabel: (x) => number(x), xTicks: Math.min(4, last[0] - lines[0].points[0][0] + 1),
    words: `${title} against cache ways; at scale 1 it is ${number(last[1])} ${unit} with ${last[0]} ways.` }),
  lines.length > 1 ? legend(lines) : null);
}

/** Every trial: done, next, or still to come. */
function trials(program) {
  if (!program.planned_scales.length) return null;
  const done = new Map(program.scales.map((one) => [one.scale, one]));
  const next = program.next_trial;
  return el("div", {}, el("h3", { text: "Exploration" }), el("div", { class: "steps" }, program.planned_scales.flatMap((scale) => ["time", "curve"].map((purpose) => {
    const one = done.get(scale);
    const has = one && (purpose === "time" ? one.time_s : one.ipc && one.bandwidth_gbs);
    const now = program.under_way.some(([at, what]) => at === scale && what === purpose);
    const due = next && next.scale === scale && next.purpose === purpose;
    return el("span", { class: has ? "done" : now || due ? "now" : "", text: `${scale}× ${purpose}${has ? " ✓" : now ? " running" : due ? " next" : ""}` });
  }))), el("p", { class: "soft", text: next ? "" : "Finished: no more scales are measured." }));
}

function about(program) {
  const times = program.scales.filter((one) => one.time_s).map((one) => `${one.time_s < 0.05 ? "under 0.1 s" : span(one.time_s)} at scale ${one.scale}`).join(", ");
  return card(program.program || "(no name)", { id: `p-${encodeURIComponent(program.program)}-${program.processes}${program.owner ? `-${encodeURIComponent(program.owner)}` : ""}`,
    aside: el("span", { class: "badge", text: program.class }) },
  el("p", { class: "soft", text: program.why }),
  facts([["Processes", number(program.processes)], ["Alone", times], ["Best scale", program.ideal_scale], ["Held back by", program.constraint], ["From", program.provenance], ["Owner", program.owner || "shared"]]),
  trials(program), picture(program, "ipc", "Instructions per cycle", "IPC"), picture(program, "bandwidth_gbs", "Bandwidth of a node", "GB/s"));
}

/** How far the runs of each program vary; nothing where no program has five runs. */
function variation(rows) {
  if (!rows.length) return null;
  const varying = rows.reduce((all, one) => all + one.varying_runs, 0);
  const columns = [{ title: "Program", cell: (one) => one.program }, { title: "Processes", number: true, cell: (one) => number(one.processes) },
    { title: "Runs", number: true, cell: (one) => number(one.runs) }, { title: "Mean run", number: true, cell: (one) => span(one.mean_run_s) },
    { title: "Deviation", number: true, cell: (one) => percent(one.run_variation) }, { title: "Varying runs", number: true, cell: (one) => number(one.varying_runs) },
    { title: "Longest / mean", number: true, cell: (one) => `${one.longest_run_ratio.toFixed(2)}×` }];
  return card("How run times vary", { id: "card-variation", note: `${number(varying)} of ${number(rows.reduce((all, one) => all + one.runs, 0))} runs vary: longer than the mean of their program by more than 1.5 deviations.` },
    table(columns, rows, { caption: "Variation of run times" }));
}

export async function open(root, source) {
  const box = el("div");
  const load = async () => {
    const told = await source.ask("programs");
    const known = told.programs;
    const owned = known.some((one) => one.owner);
    const rows = [{ title: "Program", cell: (one) => one.program }, ...(owned ? [{ title: "Owner", cell: (one) => one.owner || "shared" }] : []), { title: "Class", cell: (one) => one.class },
      { title: "Processes", number: true, cell: (one) => number(one.processes) }, { title: "Best scale", number: true, cell: (one) => one.ideal_scale },
      { title: "Scales known", number: true, cell: (one) => one.complete_scales },
      { title: "Gain from spreading", number: true, cell: (one) => {
        const first = one.scales.find((at) => at.scale === 1)?.time_s;
        const best = Math.min(...one.scales.map((at) => at.time_s).filter(Boolean));
        return first && Number.isFinite(best) ? percent(first / best - 1) : "–";
      } }];
    const varied = variation(told.variation);
    box.replaceChildren(...[varied, varied && el("div", { class: "gap" })].filter(Boolean), known.length ? el("div", {}, card("In short", {}, table(rows, known, { caption: "Programs" })), el("div", { class: "gap" }),
      el("div", { class: "cards" }, known.map(about)))
      : card("No program is known yet", {}, empty("No program has been measured.", told.learns
        ? "The policy learns: run jobs with --program NAME, and their first runs are measured."
        : "Import profiles, measure a program once, or serve a policy that learns (sns, shepherd).", "cohabit profile -- ./solve input.dat")));
  };
  await load();
  root.append(head("Programs", el("p", { text: "Measured when they ran alone." })), box);
  return { title: "Programs", refresh: (events) => (events.some((event) => event.kind !== "job") || events.some((event) => event.state === "done") ? load() : null) };
}
