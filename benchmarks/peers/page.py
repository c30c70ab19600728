"""docs/peers.md from the figures of docs/peers.json. Sentences about who is ahead follow from the figures.

It must never leave out a peer or a figure in which Cohabit is behind: `losses` looks at every one of them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.live_systems import SYSTEMS
from benchmarks.peers.simulators import ADAPTERS

OWN = "Cohabit"
HEAD = """# Beside the peers

<!-- Written by `python -m benchmarks.peers`; edits are lost. -->

The same jobs on the same machine in one run, for Cohabit and for the peers that can be had. Figures depend on the
machine and on what else it does: compare within a table, not between two versions of this page. The raw figures are
in [peers.json](peers.json).

```
python -m benchmarks.peers                  # everything that is here; rewrites this page
python -m benchmarks.peers --simulators --pyss DIR --python2 PROGRAM --cqsim DIR --scheduleflow DIR --alea DIR
python -m benchmarks.peers --live --quick   # a first look, in minutes
```
"""
SIMULATORS = """
## Simulators

Jobs of the Lublin-Feitelson model at load 0.9, seed 1, every run time within its request, first come first served with
EASY backfilling. *CPU* is user and system time of the whole process: start, reading the trace, deciding, writing the
result. *EASY?* compares every start time with an independent textbook implementation (tests/reference).
"""
LIVE = """
## Batch systems on one node

One node, {cores} cores, as many slots as cores, jobs of `/bin/true`. nq has one queue per slot.

- *Submit*: wall time of the typed command, one at a time, system idle. *Start*: the time that the job itself writes
  down, less the time before the command was typed. Both are medians of {submissions}. *Over bare Python*: submit over
  `python -I -S -c pass`, typed in turn with it, which takes the load of the machine out of the figure.
- *Drain*: {drained:,} queued jobs, all slots let go at once. *CPU*: of everything under the service in that time, the
  jobs included.
- *Memory*: PSS of the service and all its processes, without jobs and with a long queue.
- *Killed*: SIGKILL to the service right after the last of {accepted} submissions has returned, and in a second run ten
  seconds later; how many of the accepted jobs run after a restart.

Slurm runs with the configuration of our tests (no accounting, no cgroups) and `sched_min_interval=2`. Slurm 22.05
starts batch jobs in rounds about a second apart, so with few slots its drain is slow; `batch_sched_delay=0` and
`sched/builtin` made no difference. Told of 64 cores, it starts 64 jobs a round on the same machine.
"""
# (key, is less better, what it is, why we may be behind by peer; "" is any peer)
LIVE_FIGURES: tuple[tuple[str, bool, str, str, dict[str, str]], ...] = (
    (
        "submit_ms", True, "submit", "ms",
        {"": "our command starts a Python interpreter and waits until the job is on disk; theirs is a small C program"},
    ),
    (
        "start_ms", True, "submit to start", "ms",
        {
            "Slurm": "the typed command is most of it, see above",
            "": "the typed command is most of it; then a decision, a journal entry and a runner. Theirs is a fork",
        },
    ),
    (
        "jobs_per_s", False, "drain", "jobs/s",
        {
            "Slurm told of 64 cores": "it starts a whole round of jobs at once on slots that the machine does not have",
            "": "a decision, journal entries on disk, a runner per job; theirs is a fork, and nothing is made durable",
        },
    ),
    (
        "cpu_s_per_1000", True, "CPU per 1,000 jobs", "s",
        {"": "decision, journal, runner and measurement of every job, in Python; theirs is a fork in C"},
    ),
    (
        "idle_mb", True, "memory, idle", "MB",
        {"": "an interpreter with numpy, the web server and the compiled scheduler; theirs is plain C"},
    ),
    (
        "queued_mb", True, "memory, queued", "MB",
        {"": "as idle, and a queued job is Python objects and rows of arrays, not a record in C"},
    ),
)  # fmt: skip


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    clean = [[cell.replace("\n", " ").replace("|", "/") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in clean)


def _figure(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _run_line(part: dict[str, Any]) -> str:
    return (
        f"*Measured {part['date']}: `{part['command']}`, {part['machine']}, load average {part['load_before']} before "
        f"and {part['load_after']} after.*\n"
    )


def _simulators(part: dict[str, Any]) -> str:
    text = [SIMULATORS, _run_line(part)]
    how = {one.name: one.how for one in ADAPTERS}
    notes = {one.name: one.note for one in ADAPTERS}
    for work in part["workloads"]:
        rows, own = [], work["found"][OWN]
        for name, found in work["found"].items():
            if "failed" in found:
                rows.append([name, "", "", "", "", f"{found['failed']}"])
                continue
            ratio = found["jobs_per_cpu_s"] / own["jobs_per_cpu_s"]
            rate = f"{found['jobs_per_cpu_s']:,.0f}"
            rows.append([name, rate, f"{ratio:.2f}", _figure(found["cpu_s"]), str(found["peak_mb"]), found["easy"]])
        head = [work["label"], "jobs per CPU s", f"over {OWN}", "CPU, s", "memory, MB", "EASY?"]
        text.append(_table(head, rows) + "\n")
    versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
    text.append(f"Versions: {versions}. " + " ".join(f"{name}: {note}." for name, note in notes.items() if note) + "\n")
    if part["missing"]:
        text.append("Not run here, with adapters that were written from their sources and have not been tried:\n")
        text += [f"- **{name}**: {problem}. To get it: {how[name]}." for name, problem in part["missing"].items()]
    return "\n".join(text)


def kept(found: dict[str, Any]) -> str:
    """Say whether a queue outlives its service."""
    at_once, later = found["killed_at_once"], found["killed_after_10_s"]
    if at_once["ran_twice"] or later["ran_twice"]:
        return f"no: {at_once['ran_twice'] + later['ran_twice']} jobs ran twice"
    if at_once["ran"] == at_once["accepted"] and later["ran"] == later["accepted"]:
        return "yes"
    return "after some seconds" if later["ran"] == later["accepted"] else "no"


def _live_tables(measured: dict[str, Any]) -> list[str]:
    """One person at a shell; many jobs; a service that dies."""
    keeps = {one.name: one.keeps for one in SYSTEMS}
    single, many, killed, text = list[list[str]](), list[list[str]](), list[list[str]](), list[str]()
    for name, found in measured.items():
        if "failed" in found:
            text.append(f"{name}: {found['failed']}.\n")
            continue
        rates = [_figure(found["jobs_per_s"]), _figure(found["cpu_s_per_1000"])]
        if "submit_ms" not in found:
            many.append([name, *rates, "", "", ""])
            continue
        over = _figure(found["submit_ms"] / found["bare_python_ms"])
        cells = [_figure(found[key]) for key in ("submit_ms", "submit_cpu_ms", "start_ms")]
        single.append([name, cells[0], over, *cells[1:]])
        each_kb = 1024 * (found["queued_mb"] - found["idle_mb"]) / found["queued"]
        queue = f"{found['queued_mb']:,.0f} with {found['queued']:,} ({each_kb:.0f} KB each)"
        many.append([name, *rates, _figure(found["idle_mb"]), queue, f"{found['queued_processes']:,}"])
        counts = [f"{found[key]['ran']} of {found[key]['accepted']}" for key in ("killed_at_once", "killed_after_10_s")]
        killed.append([name, *counts, kept(found), keeps[name]])
    heads = (
        ["", "submit, ms", "over bare Python", "its CPU, ms", "start, ms"],
        ["", "drain, jobs/s", "CPU, s per 1,000", "idle, MB", "queued, MB", "processes then"],
        ["", "killed at once", "after 10 s", "durable?", "where the queue is"],
    )
    return text + [_table(head, rows) + "\n" for head, rows in zip(heads, (single, many, killed), strict=True)]


def _live(part: dict[str, Any]) -> str:
    full = next(one for one in part["found"].values() if "submit_ms" in one)
    sizes = {key: full[key] for key in ("submissions", "drained")} | {"accepted": full["killed_at_once"]["accepted"]}
    text = [LIVE.format(cores=part["cores"], **sizes), _run_line(part)]
    text += _live_tables(part["found"])
    versions = ", ".join(f"{name} {one['version']}" for name, one in part["found"].items() if "version" in one)
    fills = "; ".join(f"{one.name} by {one.filling}" for one in SYSTEMS if one.filling and not one.only_drain)
    text.append(f"Versions: {versions}. Queues were filled: {fills}.\n")
    for name, found in part["found"].items():
        if 0 < found.get("queued", part["asked"]) < part["asked"]:
            reason = LIMITS.get(name, "the time was up")
            count = f"{found['queued']:,} of {part['asked']:,} jobs"
            text.append(f"{name} took {count} into its queue, in {found['queueing_s']:.0f} s: {reason}.\n")
    if part["missing"]:
        how = {one.name: one.how for one in SYSTEMS}
        text += ["Not run here:\n", *(f"- **{n}**: {p}. To get it: {how[n]}." for n, p in part["missing"].items())]
    return "\n".join(text)


LIMITS = {
    "task-spooler": "its server holds a connection per queued job, about 1,000 at most",
    "nq": "every queued job is two processes that wait, and each new one looks at all files of the queue",
    "Slurm": "the time was up",
}


def losses(simulators: dict[str, Any] | None, live: dict[str, Any] | None) -> list[str]:
    """Every figure in which a peer is ahead, with the reason."""
    text = []
    for work in (simulators or {}).get("workloads", []):
        own = work["found"][OWN]
        for name, found in work["found"].items():
            if name == OWN or "failed" in found or "failed" in own:
                continue
            if found["jobs_per_cpu_s"] > own["jobs_per_cpu_s"]:
                ratio = found["jobs_per_cpu_s"] / own["jobs_per_cpu_s"]
                text.append(
                    f"**{name}, {work['label']}**: {ratio:.1f} times our jobs per CPU second. Most of our "
                    f"{_figure(own['cpu_s'])} s are the start (imports, compiled code); it pays off with longer traces."
                )
            if found["peak_mb"] < own["peak_mb"]:
                pair = f"{found['peak_mb']} MB against our {own['peak_mb']} MB"
                reason = "About 150 MB of ours are the interpreter with numpy and compiled code."
                text.append(f"**{name}, {work['label']}**: {pair}. {reason}")
    return text + _live_losses(live)


def _live_losses(live: dict[str, Any] | None) -> list[str]:
    text = []
    own = (live or {}).get("found", {}).get(OWN, {})
    for key, less, label, unit, reasons in LIVE_FIGURES:
        ahead: dict[str, list[str]] = {}  # reason -> peers
        for name, found in (live or {}).get("found", {}).items():
            if name == OWN or key not in found or key not in own:
                continue
            if key == "queued_mb" and found["queued"] != own["queued"]:  # queues of one length only
                continue
            if found[key] < own[key] if less else found[key] > own[key]:
                ahead.setdefault(reasons.get(name, reasons[""]), []).append(f"{_figure(found[key])} ({name})")
        for reason, peers in ahead.items():
            text.append(f"**{label}**: {_figure(own[key])} {unit} against {', '.join(peers)}: {reason}.")
    return text


def write(facts: dict[str, Any]) -> str:
    """The whole page."""
    simulators, live = facts.get("simulators"), facts.get("live")
    text = [HEAD]
    if simulators:
        text.append(_simulators(simulators))
    if live:
        text.append(_live(live))
    behind = losses(simulators, live)
    text.append("\n## Where we are behind, and why\n")
    text.append("\n".join(f"- {line}" for line in behind) if behind else "In no figure of these tables.")
    return "\n".join(text).rstrip() + "\n"
