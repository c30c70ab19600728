// Jobs that start together with jobs of other clusters: who holds nodes, until when, and what the mates say.

import { badge, card, el, empty, facts, head, jobLink, mateList, phase, table } from "./elements.js";
import { count, instant, lasted, number, percent, span } from "./words.js";

const BOUND = new Set(["reserving", "voted", "committed", "running"]); // who runs on its own has no lease any more

function groups(told, source) {
  if (!told.groups.length) return empty("No job has mates elsewhere now.", "Submit two jobs with the same group, one in each domain:", "cohabit submit --name left --mate beta:right -- ./solve");
  const columns = [{ title: "Group", class: "word", cell: (one) => one.group }, { title: "Job", cell: (one) => jobLink(one.job), class: "short" },
    { title: "State", cell: (one) => badge(one.state) }, { title: "Together", cell: (one) => phase(one.phase, one.state === "holding" && one.phase === "idle" ? "waits for its mates" : "") },
    { title: "Holds", number: true, cell: (one) => (one.state === "holding" ? `${count(one.nodes, "node")}${one.holds_since ? ` for ${lasted(one.holds_since, source.now())}` : ""}` : "–") },
    { title: "Lease", class: "short", cell: (one) => (one.lease_end_at && BOUND.has(one.phase) ? `${one.lease_end_at > source.now() ? "ends in" : "ended"} ${span(Math.abs(one.lease_end_at - source.now()))}` : "–") },
    { title: "Start", class: "short", cell: (one) => instant(one.start_at, source.clock) },
    { title: "Yields", number: true, cell: (one) => number(one.yields) },
    { title: "Mates", class: "why", cell: (one) => mateList(one.mates) }];
  return table(columns, told.groups, { caption: "Groups of jobs that start together" });
}

function past(told, source) {
  const columns = [{ title: "Group", class: "word", cell: (one) => one.group }, { title: "Jobs", class: "why", cell: (one) => el("span", {}, one.jobs.map((job) => el("div", {}, jobLink(job.job)))) },
    { title: "First ready", cell: (one) => instant(one.first_ready, source.clock) }, { title: "Started", cell: (one) => instant(one.start, source.clock) },
    { title: "Apart", number: true, cell: (one) => span(one.apart_s) }, { title: "Waited for mates", number: true, cell: (one) => span(one.waited_s) }];
  return el("div", {}, table(columns, told.past, { caption: "Groups and how they started" }),
    told.left_out ? el("p", { class: "hover", text: `${count(told.left_out, "more group")} left out.` }) : null);
}

export async function open(root, source) {
  const load = async () => {
    const { coupling } = await source.ask("domains");
    root.replaceChildren(head("Coupled domains"), ...(coupling ? [
      coupling.scheme ? card(coupling.domain, {}, facts([["Scheme", coupling.enabled === false ? "off: jobs start without their mates" : coupling.scheme], ["Peers", coupling.peers.join(", ") || "those with mates here"],
        ["Holds are released every", coupling.release_s ? span(coupling.release_s) : "never"], ["At most held", percent(coupling.most_held)], ["Deadlock", coupling.deadlock || null]])) : null,
      coupling.groups ? card("Groups", {}, groups(coupling, source)) : null,
      coupling.past ? card("Groups of this run", {}, past(coupling, source)) : null].filter(Boolean)
      : [card("One domain", {}, empty("This scheduler has no peers.", "Two clusters start jobs together when each names the other in its site file; docs/install-mates.md shows how."))]));
  };
  await load();
  return { title: "Domains", refresh: load };
}
