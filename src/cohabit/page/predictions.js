// What the scheduler expects: which jobs slow each other, whether the machine is calm now, and the counters behind that.

import { card, el, empty, head, jobLink, jobOf, table } from "./elements.js";
import { count, lasted, number, percent, ranges } from "./words.js";

const EXPECTED = { none: "no variation", little: "a little variation", variation: "variation" };
const BY = { KnownPairs: "measured pairs", PredictedPairs: "a trained model", ProfiledPairs: "profiles and the law of a shared cache" };

function matrix(told) {
  if (!told) return empty("Fewer than two programs are known.", "As soon as two programs have profiles, this shows by how much each is slowed beside each other one.");
  const { programs, percent: cells } = told;
  const most = Math.max(...cells.flat().filter((one) => one !== null), 1);
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Degradation matrix" },
    el("table", { class: "matrix" }, el("caption", { class: "hidden", text: "Percent by which the program of a row is slowed beside the program of a column" }),
      el("thead", {}, el("tr", {}, el("td", { text: "beside →" }), programs.map((name) => el("th", { scope: "col", text: name })))),
      el("tbody", {}, programs.map((name, row) => el("tr", {}, el("th", { scope: "row", text: name }),
        cells[row].map((cell, column) => el("td", { title: cell === null ? "unknown" : `${name} beside ${programs[column]}: ${cell} %`,
          style: { "--heat": String(cell === null ? 0 : Math.log1p(Math.max(cell, 0)) / Math.log1p(most)) }, text: cell === null ? "?" : number(cell) }))))))),
  el("p", { class: "hover", text: `By ${BY[told.by] || told.by}.${told.left_out ? ` ${count(told.left_out, "more program")} left out.` : ""}` }));
}

/** The jobs that run now beside others: by whom each is slowed, as expected, and the speed it is measured to have. */
function together(groups) {
  if (!groups.length) return empty("No job runs beside another now.", "Where jobs share nodes, this shows which jobs slow each other.");
  const rows = groups.flatMap((group) => group.jobs.map((one, place) => ({ group, one, first: place === 0 })));
  const by = ({ group, one }) => group.jobs.map((other, place) => [other, one.slowed_percent[place]]).filter(([other]) => other !== one)
    .map(([other, percents], place) => [place ? ", " : "", percents === null ? "? by " : `${number(percents)} % by `, jobOf(other)]);
  const columns = [{ title: "Nodes", cell: ({ group, first }) => (first ? ranges(group.nodes) : "") }, { title: "Job", class: "short", cell: ({ one }) => jobOf(one) }, { title: "Program", cell: ({ one }) => one.program || "" },
    { title: "Slowed, expected", class: "why", cell: (row) => el("span", {}, by(row)) }, { title: "Expected in all", number: true, cell: ({ one }) => (one.expected === null ? "–" : `${one.expected.toFixed(2)}×`) },
    { title: "Speed measured", number: true, cell: ({ one }) => (one.measured ? `${percent(one.measured.last)} of alone` : "–") }];
  return table(columns, rows, { caption: "Jobs that share nodes now" });
}

function gate(told) {
  const rows = [{ title: "Kind of work", cell: (one) => one.workload_type }, { title: "Expected now", cell: (one) => (told.labels.includes(one.label)
    ? el("span", { class: "badge state-held", text: `${EXPECTED[one.label]}: jobs wait` }) : el("span", { class: "badge state-done", text: EXPECTED[one.label] })) },
    { title: "Probability", number: true, cell: (one) => percent(one.probability) }, { title: "Run time against usual", number: true, cell: (one) => `${one.slowdown.toFixed(2)}×` }];
  const tally = Object.entries(told.tallies).map(([key, value]) => `${key.replaceAll("_", " ")} ${number(value)}`).join(" · ");
  return el("div", {}, told.now.length ? table(rows, told.now, { caption: "What is expected of a start now" })
    : empty("The model predicts nothing now.", told.missing.length ? `It needs counters that are missing: ${told.missing.join(", ")}.` : told.without_data || "There is no recent telemetry."),
  el("p", { class: "hover", text: `Jobs wait where ${told.labels.map((label) => EXPECTED[label]).join(" or ")} is expected, at most ${number(told.skip_threshold)} times each.${tally ? ` So far: ${tally}.` : ""}` }),
  told.passed_over.length ? el("p", {}, "Passed over: ", told.passed_over.map((one) => [jobLink(one.job), ` ${one.skips}×  `])) : null);
}

function counters(told) {
  if (!told) return empty("There are no counters.", "Telemetry comes from the site's [telemetry] settings: this machine's own counters, Prometheus or LDMS.", "cohabit telemetry show");
  const looked = told.rows.some((row) => row[4]);
  const columns = [{ title: "Counter", cell: (row) => el("code", { text: row[0] }) }, ...(looked ? [{ title: "The model", cell: (row) => (row[4] ? "looks at it" : "") }] : []), ...["lowest", "mean", "highest"].map((title, at) => ({ title, number: true,
    cell: (row) => (row[at + 1] === null ? "–" : Number(row[at + 1].toPrecision(4)).toLocaleString("en")) }))];
  return el("div", {}, table(columns, told.rows, { caption: "The latest counters over all nodes" }),
    el("p", { class: "hover", text: `The window ended ${lasted(0, told.age_s)} ago.${told.left_out ? ` ${count(told.left_out, "more counter")} left out.` : ""}` }));
}

function points(told) {
  if (!told || !told.points.length) return null;
  const rows = [...told.points].reverse().slice(0, 200);
  const columns = [{ title: "Job", cell: (one) => jobLink(one.job) }, { title: "Program", cell: (one) => one.program },
    { title: "Expected", number: true, cell: (one) => (one.predicted === null ? "–" : `${one.predicted.toFixed(2)}×`) }, { title: "Measured", number: true, cell: (one) => `${one.actual.toFixed(2)}×` }];
  return card("Expected against measured", { note: `Time against running alone${told.mean_abs_error === null ? "" : `; mean error ${told.mean_abs_error.toFixed(2)}`}.` }, table(columns, rows, { caption: "Slowdowns" }));
}

export async function open(root, source) {
  const load = async () => {
    const told = await source.ask("predictions");
    const past = source.live ? JSON.parse(await source.text("slowdowns")) : told.slowdowns;
    root.replaceChildren(head("Predictions"),
      ...(told.together ? [card("Which jobs slow each other now", { note: "Jobs that share nodes. Each pair is predicted by itself; the expected total uses the booked cores, ways and bandwidth. A question mark: the program has no profile. Speeds are measured where a policy keeps promises." }, together(told.together))] : []),
      card("Expected slowdowns by program", { note: "By how many percent the program of a row is slowed beside the program of a column." }, matrix(told.matrix)),
      ...told.gates.map((one) => card("Variability now", {}, gate(one))),
      ...(told.gates.length || !source.live ? [] : [card("Variability now", {}, empty("The variability gate is off.", "With the policy rush and a trained model, jobs that would vary now wait for a calmer machine.", "cohabit train variability DATA.csv --out MODEL"))]),
      ...(told.gates.length || told.counters ? [card("Counters behind it", {}, counters(told.counters))] : []), ...[points(past)].filter(Boolean));
  };
  await load();
  let last = performance.now();
  return { title: "Predictions", refresh: async () => { if (!source.live || performance.now() - last > 3000) { last = performance.now(); await load(); } } };
}
