"""`cohabit queue`: the jobs of a running scheduler, and what each waits for."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import echo, note, screen_width, show_json, table
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import nodes_of, numbers, outcome, plain, ran_s, shortened, span, waited_s
from cohabit.cli.options import AsJson, Server, asking, check_not_both
from cohabit.cli.text_table import LEAST_PROSE, cell_width, table_width
from cohabit.model.errors import InputError, unknown

if TYPE_CHECKING:
    from cohabit.app.client.client import Client

WIDE = ("queued", "running", "finished", "all")
STATES = {  # states of a job, and the list in which the server looks for it
    "held": "queued", "starting": "running", "done": "finished", "failed": "finished", "killed": "finished",
    "cancelled": "finished", "lost": "finished",
}  # fmt: skip
COLUMNS = ["job", "user", "program", "state", "cores", "nodes", "waited", "ran", "limit", "why"]
SHORT = 50  # waiting jobs: 200 take the server half a second of every five in which the queue is asked for
LESS = ("limit", "nodes", "waited", "program", "cores", "ran")  # left out first on a narrow terminal, in this order


@verb(
    "queue",
    "Jobs that wait and run.",
    "cohabit queue",
    "cohabit queue --all",
    "cohabit queue --expected",
    "cohabit queue --user ann --state failed",
)
def queue(
    every: Annotated[bool, Option("--all", "-a", help="Also jobs that have ended.")] = False,
    user: Annotated[str, Option(metavar="NAME", help="Only jobs of this user.")] = "",
    state: Annotated[
        str, Option(metavar="STATE", help="queued, held, running, finished, done, failed, killed, ...")
    ] = "",
    limit: Annotated[int, Option(metavar="N", help="The newest, at most this many.")] = 1000,
    expected: Annotated[
        bool, Option("--expected", help=f"When waiting jobs start, also of more than {SHORT}, and with --json.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs that wait or run, why each one waits, and when it starts if every job takes its requested time."""
    check_not_both("--all", "--state", every and state)
    if state and state not in (*WIDE, *STATES):
        raise unknown("state", state, [*WIDE, *STATES])
    if limit < 1:
        raise InputError(f"--limit {limit} shows nothing", "", "give 1 or more")
    asked = "all" if every else STATES.get(state, state)
    with asking(server) as client:
        jobs, more = client.jobs(asked, user, limit)
        ahead = _ahead(client, jobs, expected, not as_json)
    starts = {one["job"]: one["start_at"] for one in ahead["starts"]}
    if state in STATES:
        jobs = [job for job in jobs if job["state"] == state]
    jobs.sort(key=place_of)
    if as_json:
        if expected:
            jobs = [job | {"expected_start_at": starts.get(job["job"])} for job in jobs]
        show_json({"jobs": jobs, "more": more})
        return
    if not jobs:
        echo("no jobs" + ("" if every or state else " wait or run; `cohabit queue --all` shows ended jobs"))
        return
    now = time.time()
    rows = [row_of(_with_start(job, starts, now), now) for job in folded(jobs)]
    if sys.stdout.isatty():
        shown = columns_that_fit(rows, screen_width())
        table("", [COLUMNS[at] for at in shown], [[row[at] for at in shown] for row in rows])
    else:
        table("", COLUMNS, rows)
    if ahead["why"]:
        note(f"not all expected starts are known: {ahead['why']}")
    if more:
        note(f"there are more than {limit:,}; --limit N shows more")


def _ahead(client: "Client", jobs: list[dict[str, Any]], asked: bool, if_short: bool) -> dict[str, Any]:
    """Return the expected starts: if they were asked for, or of a short queue, where the server has time for it."""
    if asked:
        return client.expected()
    nothing: dict[str, Any] = {"at": 0.0, "starts": [], "why": ""}
    waits = sum(job["state"] == "queued" for job in jobs)
    if not if_short or not 0 < waits <= SHORT:
        return nothing
    try:
        return client.expected() | {"why": ""}
    except InputError:  # too many requests, or an older server: the queue is shown all the same
        return nothing


def _with_start(job: dict[str, Any], starts: dict[str, float], now: float) -> dict[str, Any]:
    """Return the job with its expected start before its reason."""
    at = starts.get(str(job["job"]))
    if at is None or job["started_at"] is not None:
        return job
    return job | {
        "why": "; ".join(one for one in (f"expected to start in {span(max(at - now, 0.0))}", job["why"]) if one)
    }


def columns_that_fit(rows: list[list[str]], width: int, prose: int = LEAST_PROSE) -> list[int]:
    """Choose the columns to show: names of jobs and users are never cut, so others are left out until they fit.

    `prose`: characters of the reason that must fit, too.
    """
    sizes = [max(map(cell_width, cells)) for cells in zip(COLUMNS, *rows, strict=True)]
    sizes[-1] = min(sizes[-1], prose)
    shown = list(range(len(COLUMNS)))
    for name in LESS:
        if table_width([sizes[at] for at in shown]) <= width:
            break
        shown.remove(COLUMNS.index(name))
    return shown


def place_of(job: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sort key: running jobs first, then waiting, then ended ones; each in the order of submission."""
    number = str(job["job"]).rpartition("_")[2]
    at = int(number) if job["array"] and number.isdigit() else 0
    return job["ended_at"] is not None, job["started_at"] is None, job["submitted_at"] or 0.0, at


def folded(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same jobs with the waiting members of an array as one line: 12_[4-100]."""
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    members: dict[tuple[str, ...], list[int]] = {}
    for job in jobs:
        name, bar, number = str(job["job"]).rpartition("_")
        waits = job["started_at"] is None and job["ended_at"] is None
        key: tuple[str, ...] = (name, job["state"]) if waits and bar and name == job["array"] else (str(job["job"]),)
        lines.setdefault(key, job)
        if len(key) == 2:
            members.setdefault(key, []).append(int(number))
    for key, found in members.items():
        if len(found) > 1:
            lines[key] = lines[key] | {"job": f"{key[0]}_[{numbers(found)}]"}
    return list(lines.values())


def row_of(job: dict[str, Any], now: float) -> list[str]:
    """Return one line of the table."""
    why = outcome(job).partition(": ")[2] if job["why"] in ("", job["state"]) else job["why"]
    cells = [
        str(job["job"]),
        job["user"],
        shortened(job["program"] or "", 20),
        job["state"],
        _cores(job),
        nodes_of(job),
        span(waited_s(job, now)),
        span(ran_s(job, now)),
        span(job["limit_s"]),
        why,
    ]
    return [plain(cell) for cell in cells]


def _cores(job: dict[str, Any]) -> str:
    """Return the cores it has or asks for; a job that waits for whole nodes gets all cores of them."""
    return str(job["cores"] or ("-" if job.get("whole_nodes") else job["processes"]))
