// The list of jobs: searched, sorted and cut into pages by the server, so that ten thousand are no more work than ten.

import { badge, card, choice, el, empty, head, jobLink, pager, table, toast } from "./elements.js";
import { lasted, number } from "./words.js";

const PAGE = 50;
const CHOICES = [["all", "Waiting and running"], ["waiting", "Waiting"], ["running", "Running"], ["finished", "Over"]];

export class JobList {
  constructor(source, { view = "all", most = PAGE } = {}) {
    Object.assign(this, { source, view, most, find: "", sort: { key: "submitted_at", down: false }, first: 0 });
    this.box = el("div", { class: "jobs-table" });
    this.pager = el("div", { class: "pager" });
  }

  columns() {
    const now = this.source.now();
    const waited = (job) => lasted(job.submitted_at, job.started_at ?? job.ended_at ?? now);
    const ran = (job) => (job.started_at === null ? "" : lasted(job.started_at, job.ended_at ?? now));
    return [
      { title: "Job", sort: "job", cell: (job) => jobLink(job.job), class: "short" },
      { title: "Program", sort: "program", cell: (job) => job.program || "", class: "word" },
      ...(this.found.jobs.some((job) => job.user) ? [{ title: "User", sort: "user", cell: (job) => job.user ?? "" }] : []),
      { title: "State", sort: "state", cell: (job) => badge(job.state), class: "short" },
      { title: "Processes", sort: "processes", number: true, cell: (job) => number(job.processes) },
      { title: "Nodes", number: true, cell: (job) => (job.nodes ? number(job.nodes) : "") },
      { title: "Waited", sort: "waited", number: true, cell: waited },
      { title: "Ran", sort: "ran", number: true, cell: ran },
      { title: "Why it waits, or how it ended", cell: (job) => job.why || "", class: "why" },
    ];
  }

  async load() {
    const { view, find, sort, first, most } = this;
    this.found = await this.source.ask("jobs", { view, find, sort: sort.key, down: sort.down, first, most });
    this.draw();
  }

  draw() {
    const { jobs, total } = this.found;
    const here = document.activeElement && this.box.contains(document.activeElement)
      ? document.activeElement.closest("tr")?.dataset.key : null;
    const scrolled = this.box.querySelector(".scroll")?.scrollTop || 0;
    if (!jobs.length) {
      this.box.replaceChildren(this.find ? empty(`No job matches “${this.find}”.`)
        : this.view === "finished" ? empty("No job has ended yet.")
          : empty("No job waits or runs.", this.source.live ? "Submit a job with the button above, or in a terminal:" : "",
            this.source.live ? "cohabit submit -- sleep 60" : ""));
    } else {
      this.box.replaceChildren(table(this.columns(), jobs, { caption: "Jobs", sort: this.sort, rowKey: (job) => job.job,
        onSort: this.view === "finished" && this.source.live ? null : (key) => this.resort(key) }));
      this.box.querySelector(".scroll").scrollTop = scrolled;
      if (here) this.box.querySelector(`tr[data-key="${CSS.escape(here)}"] a`)?.focus();
    }
    this.pager.replaceChildren(...this.pages(total, jobs.length));
  }

  pages(total, here) {
    if (total <= this.most && this.first === 0) return [el("span", { text: total ? `${number(total)} in all` : "" })];
    return pager(this.first, here, total, this.most, (by) => { this.first = Math.max(0, this.first + by); this.load(); });
  }

  resort(key) {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : false };
    this.first = 0;
    this.load();
  }
}

/** The button that submits a job, where that is possible. */
export function submitButton(source) {
  if (!source.live) return null;
  return el("button", { class: "main", type: "button", text: "Submit a job", on: { click: async () => {
    const { submitDialog } = await import("./submit.js");
    submitDialog(source);
  } } });
}

export async function open(root, source, [name]) {
  if (name) return (await import("./job.js")).open(root, source, name);
  const list = new JobList(source);
  const search = el("input", { type: "search", placeholder: "Job or program", "aria-label": "Find jobs by name or program" });
  let timer = null;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { list.find = search.value; list.first = 0; list.load().catch((error) => toast(error.message, true)); }, 200);
  });
  const which = choice("Which jobs", CHOICES, list.view, (view) => {
    Object.assign(list, { view, first: 0 });
    list.load();
  });
  await list.load();
  root.append(head("Jobs", el("div", { class: "aside" }, submitButton(source))),
    card("All jobs", { aside: el("div", { class: "row" }, which, search) }, list.box, list.pager));
  const tick = setInterval(() => { if (source.live && !document.hidden) list.draw(); }, 5000);
  return { title: "Jobs", refresh: () => list.load(), close: () => clearInterval(tick) };
}
