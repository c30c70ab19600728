// Two finished runs side by side: every metric with its difference, waits as curves, and both Gantt charts in step.

import { card, el, empty, head, table } from "./elements.js";
import { Gantt } from "./gantt.js";
import { legend, lineChart } from "./charts.js";
import { percent, span } from "./words.js";

const COLOURS = ["#2f7f86", "#d08a2e"];

/** Every figure of two runs with its difference, and how long jobs waited in each; `few`: keys of the figures to show. */
export function beside(told, names, note, few = null) {
  const ratio = (row) => (row.values[0] && row.values[1] !== null ? row.values[1] / row.values[0] - 1 : null);
  const columns = [{ title: "Figure", cell: (row) => row.title }, { title: names[0], number: true, cell: (row) => row.shown[0] },
    { title: names[1], number: true, cell: (row) => row.shown[1] },
    { title: "Difference", number: true, cell: (row) => {
      const change = ratio(row);
      if (change === null || Math.abs(change) < 0.0005) return "=";
      const good = row.better === 0 ? "" : Math.sign(change) === row.better ? "better" : "worse";
      return el("span", { class: good, text: `${change > 0 ? "+" : ""}${percent(change, 1)}${good ? ` (${good})` : ""}` });
    } }];
  const lines = told.waits.map((points, place) => ({ name: names[place], colour: COLOURS[place], points }));
  return [card("Figures", { note }, table(columns, told.rows.filter((row) => !few || few.includes(row.key)), { caption: `${names[0]} and ${names[1]}` })),
    card("How long jobs waited", { note: "The share of jobs that waited at most this long." }, lineChart({ lines, width: 900, height: 230, most: 1, xLabel: (x) => span(10 ** x - 1), yLabel: (y) => percent(y), words: told.words }), legend(lines))];
}

export async function open(root, source) {
  root.append(head("Compare"));
  if (source.live || source.about.runs.length < 2) {
    root.append(card("Two runs side by side", {}, empty("There is only one.", "Give two folders of finished runs:", "cohabit view RUN1 RUN2")));
    return { title: "Compare" };
  }
  const told = await source.ask("compare");
  const charts = told.runs.map((name, place) => new Gantt(source, place));
  await Promise.all(charts.map((chart) => chart.load()));
  for (const chart of charts) {
    chart.onMove = (from, until) => charts.filter((other) => other !== chart).forEach((other) => other.show(from, until));
  }
  root.append(...beside(told, told.runs, told.words), ...charts.map((chart, place) => card(`Gantt of ${told.runs[place]}`, { id: `gantt-${place}` }, chart.root)));
  return { title: "Compare", shown: () => charts.forEach((chart) => chart.shown()), redraw: () => charts.forEach((chart) => chart.shown()),
    close: () => charts.forEach((chart) => chart.close()) };
}
