// What lies right of now in the Gantt chart: the rest of the jobs that run, and the jobs that wait where they are expected.

const RUNNING = 0; // the code of that state

/**
 * The columns of what ran, with rows of what is planned behind them. `real`: how many rows are of what ran; `counted`: how
 * many rows are different jobs, as the rest of a running job has a row of its own.
 */
export function withPlans(ran, plans) {
  const runs = new Set(ran.ids.filter((_, job) => ran.state[job] === RUNNING));
  const programs = [...ran.programs];
  const users = [...ran.users];
  const code = (name, known) => { if (!known.includes(name)) known.push(name); return known.indexOf(name); };
  const rows = plans.planned.filter((one) => !runs.has(one.job)).map((one) => ({ ...one, code: code(one.program, programs), owner: code(one.user, users) }));
  const counted = ran.ids.length + rows.length;
  const nodes = new Map();
  ran.bar_job.forEach((job, bar) => { if (ran.state[job] === RUNNING) { if (!nodes.has(job)) nodes.set(job, []); nodes.get(job).push([ran.bar_first[bar], ran.bar_count[bar]]); } });
  for (const [job, held] of nodes) {
    const end = plans.running[ran.ids[job]];
    if (end > ran.until) rows.push({ job: ran.ids[job], code: ran.program[job], owner: ran.user[job], size: ran.size[job], share: ran.share[job], submitted_at: ran.submit[job], start_at: ran.until, end_at: end, nodes: held });
  }
  const real = ran.ids.length;
  const bars = rows.flatMap((one, at) => one.nodes.map(([first, many]) => [real + at, first, many]));
  const longer = (kind, before, more) => { const all = new kind(before.length + more.length); all.set(before); all.set(more, before.length); return all; };
  const numbers = (name, key) => longer(Int32Array, ran[name], rows.map((one) => one[key]));
  const floats = (name, key) => longer(Float64Array, ran[name], rows.map((one) => one[key]));
  const bar = (name, at) => longer(Int32Array, ran[name], bars.map((one) => one[at]));
  return { ...ran, real, counted, programs, users, ids: [...ran.ids, ...rows.map((one) => one.job)], states: [...ran.states, "planned"],
    until: Math.max(ran.until, ...rows.map((one) => one.end_at)), submit: floats("submit", "submitted_at"), start: floats("start", "start_at"), end: floats("end", "end_at"),
    program: numbers("program", "code"), user: numbers("user", "owner"), size: numbers("size", "size"), share: floats("share", "share"), state: longer(Int32Array, ran.state, rows.map(() => ran.states.length)),
    bar_job: bar("bar_job", 0), bar_first: bar("bar_first", 1), bar_count: bar("bar_count", 2) };
}
