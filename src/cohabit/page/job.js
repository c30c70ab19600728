// One job: where it stands, how it runs beside others, every reason it waited, what it wrote, and what may be done.

import { badge, button, card, el, empty, facts, head, jobLink, jobOf, mateList, nodeLink, swatch, toast } from "./elements.js";
import { colourOf } from "./colours.js";
import { lineChart } from "./charts.js";
import { count, instant, lasted, number, percent, ranges, span } from "./words.js";

const MOST_MEMBERS = 100;
const WORDS = { cancel: "Cancel", hold: "Hold", release: "Release", requeue: "Requeue" };

function buttons(source, job, actions, again) {
  if (!source.live) return null;
  return el("div", { class: "aside" }, actions.map((action) => el("button", {
    type: "button", class: action === "cancel" ? "danger" : "", text: WORDS[action],
    on: { click: async (event) => {
      event.target.disabled = true;
      try {
        await source.change("POST", `jobs/${encodeURIComponent(job)}/${action}`);
        toast(`${WORDS[action]}: job ${job}`);
      } catch (error) {
        toast(`${error.message}${error.fix ? ` – ${error.fix}` : ""}`, true);
      }
      await again();
    } },
  })));
}

/** An array as a whole: its members wait and run, each for itself. */
const isArray = (job) => Boolean(job.array) && job.name === job.job;
const neverRan = (job) => job.started_at === null && (job.ended_at !== null || ["cancelled", "rejected"].includes(job.state));

function members(job) {
  const [first, last] = job.array.split("-").map(Number);
  const shown = Math.min(last, first + MOST_MEMBERS - 1);
  const links = Array.from({ length: shown - first + 1 }, (_, at) => jobLink(`${job.job}_${first + at}`));
  return el("span", { class: "row" }, links, last > shown ? `and ${number(last - shown)} more` : null);
}

/** When and where it starts, if every job takes its requested time. */
function startOf({ expected_start_at: at, expected_nodes: nodes }, now) {
  const where = nodes.length > 4 ? count(nodes.length, "node") : `${nodes.length === 1 ? "node" : "nodes"} ${ranges(nodes)}`;
  return `expected start in ${span(Math.max(at - now, 0))} on ${where}, by requested times`;
}

/** Waiting and running on one bar, with what was asked for. */
function bar(job, now, clock, told) {
  const end = job.ended_at ?? now;
  const begin = job.started_at ?? end;
  const limit = job.started_at === null || job.ended_at !== null ? end : job.started_at + job.limit_s;
  const until = Math.max(end, limit, job.submitted_at + 1e-6);
  const share = (from, to) => `${(100 * Math.max(to - from, 0)) / (until - job.submitted_at)}%`;
  const parts = [["var(--warn)", "waited", job.submitted_at, begin], ...(job.started_at === null ? [] : [["var(--accent)", "ran", begin, end]])];
  return el("div", {}, el("div", { class: "stack", role: "img",
    "aria-label": `waited ${lasted(job.submitted_at, begin)}, ${job.started_at === null ? (neverRan(job) ? "never started" : "not started yet") : `ran ${lasted(begin, end)}`}` },
  parts.filter(([, , from, to]) => to > from).map(([colour, , from, to]) => el("span", { style: { "--share": share(from, to), "--colour": colour } }))),
  el("div", { class: "legend" }, parts.map(([colour, word, from, to]) => swatch(colour, `${word} ${lasted(from, to)}`)),
  told.expected_start_at ? el("span", { text: startOf(told, now) }) : null,
  job.started_at !== null && job.ended_at === null ? el("span", { text: `limit in ${span(job.started_at + job.limit_s - now)}` }) : null,
  el("span", { text: `submitted ${instant(job.submitted_at, clock)}` })));
}

const untold = (job) => `Its slowdown is not known: ${job.slowdown_why}.`;

function speedOf(job, placement) {
  const promised = placement?.promised ?? null;
  const measured = placement?.measured ?? null;
  const expected = job.predicted_slowdown ? 1 / job.predicted_slowdown : null;
  const actual = job.actual_slowdown ? 1 / job.actual_slowdown : null;
  const kept = measured?.mean ?? actual;
  const rows = placement?.holds ? [] : [["Promised", promised], ["Expected at its start", expected], ["Measured recently", measured?.last ?? null],
    ["Measured on average", kept]].filter(([, value]) => value !== null);
  if (!rows.length) {
    if (neverRan(job)) return empty("It never ran.");
    if (job.slowdown_why) return empty(untold(job));
    return empty(job.started_at === null ? "It has not started." : job.ended_at === null ? "Its speed is not known yet." : "Its speed is not known.", "A program that has been profiled, or a policy that measures progress, shows here which share of its speed alone the job was promised and has.");
  }
  const most = Math.max(1, ...rows.map(([, value]) => value));
  const line = promised === null ? null : { style: { "--at": `${(100 * promised) / most}%` }, class: "promise" };
  const short = promised !== null && kept !== null && kept < promised - 0.005;
  return el("div", {}, el("div", { class: "mask" }, rows.map(([name, value]) => el("div", { class: "lane" }, el("span", { text: name }),
    el("div", { class: "meter" }, el("span", { style: { "--share": `${(100 * value) / most}%` } }), line ? el("i", line) : null),
    el("span", { class: "number", text: percent(value) })))),
  job.slowdown_why ? el("p", { class: "verdict", text: untold(job) }) : null,
  promised !== null && kept !== null ? el("p", { class: short ? "verdict bad-word" : "verdict good-word",
    text: short ? `${percent(promised - kept, 1)} of its speed short of the promise.` : "The promise is kept." }) : null);
}

function place(job, placement) {
  if (!placement && !(job.nodes || []).length) return empty(neverRan(job) ? "It never had nodes." : "It has no nodes yet.");
  const nodes = placement?.nodes ?? job.nodes;
  const many = nodes.length > 24;
  return el("div", {}, facts([
    ["Nodes", many ? ranges(nodes) : el("span", { class: "row" }, nodes.map(nodeLink))],
    ["Cores", placement?.cores ? `${number(placement.cores)} on each node` : placement?.exclusive ? "all of each node" : number(job.cores)],
    ["Cache ways booked", placement?.ways ? `${placement.ways} on each node` : null],
    ["Bandwidth booked", placement?.bandwidth_gbs ? `${number(placement.bandwidth_gbs)} GB/s on each node` : null],
    ["Scale factor", job.scale > 1 ? `${job.scale}: spread over ${job.scale} times the nodes` : "1: compact"],
    ["Nodes are", placement ? (placement.exclusive ? "its own" : "shared") : null],
    ["This run", placement && placement.purpose !== "run" ? `measures the program (${placement.purpose})` : null],
    ["Expected end", placement && !placement.holds && job.ended_at === null ? instant(placement.expected_end_at) : null],
  ]), placement && placement.beside.length ? el("div", {}, el("h3", { text: job.ended_at === null ? "Beside it" : "Beside it at some time" }), el("ul", {},
    placement.beside.map((other) => el("li", {}, swatch(colourOf(other.program)),
      jobOf(other), other.program ? ` (${other.program})` : "",
      ` on ${count(other.nodes, "node")}`)))) : null);
}

function reasons(told, clock) {
  const entries = [];
  for (const entry of [...told.history, ...(told.placement?.story ?? [])].sort((a, b) => a.at - b.at)) {
    if (!entries.some((other) => other.why === entry.why && Math.abs(other.at - entry.at) < 1)) entries.push(entry);
  }
  if (told.why && !entries.some((entry) => entry.why === told.why)) entries.push({ at: told.job.ended_at, why: told.why });
  if (!entries.length) {
    const waited = Math.max((told.job.started_at ?? told.job.ended_at ?? told.at) - told.job.submitted_at, 0);
    return neverRan(told.job) ? empty(`It was ${told.job.state} before it started.`) : waited < 1 ? empty("It started at once.")
      : told.replay ? empty(`It waited ${span(waited)}.`, "Explain replays the run up to its start and lists every reason with its numbers.") : empty("No reason was noted.");
  }
  const when = (entry) => (entry.at === null ? "now" : entry.at < told.job.submitted_at + 1 ? "at submission" : `${span(entry.at - told.job.submitted_at)} after submission`);
  const line = (entry) => [el("div", { class: "when", text: when(entry), title: entry.at === null ? null : instant(entry.at, clock) }), el("div", { class: "said", text: entry.why.replace(/; (?=scale \d)/g, "\n") })];
  return el("ol", { class: "timeline" }, folded(entries).map(([first, ...more]) => el("li", {}, line(first), more.length
    ? el("details", {}, el("summary", { text: `${count(more.length, "more time")} with other numbers or jobs, the last ${when(more.at(-1))}` }), more.map(line)) : null)));
}

/** Reasons that follow each other and differ only in numbers, or in the jobs they name, are one; of several scales the first counts. */
function folded(entries) {
  const groups = [];
  for (const entry of entries) {
    if (groups.length && shape(groups.at(-1)[0].why) === shape(entry.why)) groups.at(-1).push(entry);
    else groups.push([entry]);
  }
  return groups;
}

const DURATION = /-?\d[\d.]* (?:s|min(?: \d+ s)?|h(?: \d+ min)?|d(?: \d+ h)?)\b/g;
const JOBS = /\bjob [^\s,;]+(?:, job [^\s,;]+)*(?: and (?:job [^\s,;]+|\d+ more))?/g;
const shape = (why) => why.split(/; (?=scale \d)/)[0].replace(JOBS, "job").replace(/\bruns there\b/g, "run there").replace(/\bnone\b/g, "0").replace(DURATION, "").replace(/\d[\d.,]*/g, "#").replace(/\b(nodes|cores|jobs|ways|are)\b/g, (word) => ({ are: "is" })[word] ?? word.slice(0, -1));

function speeds(segments, clock) {
  if (!segments || segments.length < 1) return null;
  const points = segments.flatMap(([at, rate], index) => [[at, rate], [segments[index + 1]?.[0] ?? segments.end, rate]]);
  return card("Its speed over time", { note: "As a share of its speed alone, as the simulated machine had it." },
    lineChart({ lines: [{ name: "speed", colour: "#2f7f86", points, fill: true }], width: 900, most: Math.max(1.05, ...points.map(([, rate]) => rate * 1.05)), xLabel: (x) => instant(x, clock),
      yLabel: (y) => percent(y), words: `Speed between ${percent(Math.min(...points.map(([, y]) => y)))} and ${percent(Math.max(...points.map(([, y]) => y)))} of alone.` }));
}

export async function open(root, source, name) {
  let told = null;
  const output = el("pre", { class: "code output", tabindex: "0", role: "region", "aria-label": "Output" });
  let asked = 0;
  const load = async () => {
    const mine = ++asked;
    const answer = await source.ask(`jobs/${encodeURIComponent(name)}`);
    if (mine !== asked) return; // an older answer that comes late: a newer one is on its way, or here
    told = answer;
    draw();
  };
  const readOutput = async () => {
    try {
      const text = await source.text(`jobs/${encodeURIComponent(name)}/output`);
      output.textContent = text.length > 60000 ? `…\n${text.slice(-60000)}` : text || "(nothing yet)";
    } catch (error) {
      output.textContent = error.message;
    }
  };
  const parts = (job, placement, now) => [
    card("Timeline", {}, bar(job, now, source.clock, told), told.summary ? el("p", { text: told.summary }) : null),
    el("div", { class: "half" }, card("Why it waited, and what was done for it", { id: "card-why", aside: told.replay ? replay(source, name, told, draw) : null },
      reasons(told, source.clock))),
    ...(!source.live && !placement && !job.predicted_slowdown && !job.actual_slowdown ? [] : [el("div", { class: "half" }, card("Speed beside others", { note: "Relative to its speed alone on the fewest nodes: 100 % is that speed; spreading can give more." }, speedOf(job, placement)))]),
    el("div", { class: "half" }, card(placement?.holds ? "Its share of nodes" : job.ended_at === null ? "Where it runs" : "Where it ran", { id: "card-where" }, place(job, placement))),
  ];
  const draw = () => {
    const { job, placement } = told;
    const now = source.now();
    root.replaceChildren(
      head(`Job ${job.job}`, badge(placement?.holds ? "holding" : job.state),
        el("p", { text: job.program || "" }), buttons(source, job.job, told.actions, load)),
      ...(isArray(job) ? [card("Members", { note: "Each waits and runs by itself." }, members(job))] : parts(job, placement, now)),
      el("div", { class: isArray(job) ? "" : "half" }, card("About it", {}, facts([
        ["User", job.user], ["Command", job.command ? el("code", { text: job.command.join(" ") }) : null],
        ["Account", job.account || null], ["Nodes asked for", job.whole_nodes ? `${number(job.whole_nodes)}, whole` : null], ["Processes", job.whole_nodes ? null : number(job.processes)],
        ["Time limit", span(job.limit_s)], ["Started", isArray(job) ? null : instant(job.started_at, source.clock)],
        ["Ended", instant(job.ended_at, source.clock)], ["Runs so far", job.attempt || null], ["Exit status", job.exit_status],
        ["Signal", job.exit_signal], ["Waits for", (job.after || []).length ? el("span", { class: "row" }, job.after.map(jobLink)) : null],
        ["Array", isArray(job) ? null : job.array && jobLink(job.array)], ["Starts together as", job.mate ?? told.mates?.group], ["With", told.mates ? mateList(told.mates.mates) : null],
      ]))),
      ...[speeds(told.segments && Object.assign(told.segments, { end: job.ended_at }), source.clock)].filter(Boolean));
    if (source.live && !isArray(job) && !neverRan(job)) {
      root.append(card("Output", { aside: button("Read it", readOutput) }, output));
    }
  };
  await load();
  return {
    title: `Job ${name}`,
    refresh: (events) => (events.some((event) => event.kind !== "job" || event.job === name) ? load() : null),
  };
}

/** In a finished run the reasons are found by replaying it up to the job's start. */
function replay(source, name, told, draw) {
  return el("button", { type: "button", text: "Explain", on: { click: async (event) => {
    event.target.disabled = true;
    event.target.textContent = "Replaying …";
    try {
      const story = await source.ask(`jobs/${encodeURIComponent(name)}/why`);
      Object.assign(told, { history: story.history, summary: story.summary, replay: false });
      draw();
    } catch (error) {
      toast(error.message, true);
      event.target.disabled = false;
    }
  } } });
}
