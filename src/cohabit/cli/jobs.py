"""`cohabit show`, `cancel`, `hold`, `release`, `requeue` and `change`: one job, or several the same way."""

import time
from typing import Annotated, Any

from cohabit.cli.console import echo, show_json, show_result
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.job_words import asked_for, counted, moment, nodes_of, outcome, plain, ran_s, slowdown, span, waited_s
from cohabit.cli.options import AsJson, Jobs, OneJob, Server, asking, duration_s
from cohabit.model.errors import InputError


@verb("show", "All about one job.", "cohabit show 12")
def show(job: OneJob, server: Server = None, as_json: AsJson = False) -> None:
    """Show what a job asked for, how it stands, where it runs, and how it ended."""
    with asking(server) as client:
        view = client.job(job)
    if as_json:
        show_json(view)
        return
    for label, text in _lines(view):
        echo(f"{label:>10}  {text}")


@verb("cancel", "Withdraw jobs; stop those that run.", "cohabit cancel 12 13", "cohabit cancel --all")
def cancel(
    jobs: Annotated[list[str] | None, Argument("JOB...", "Their numbers or names.", jobs=True)] = None,
    every: Annotated[bool, Option("--all", help="All your jobs that have not ended.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw jobs. Those that run are stopped, with everything they started."""
    if every == bool(jobs):
        raise InputError("say which jobs: their names, or --all", "", "`cohabit queue` lists them")
    with asking(server) as client:
        if every:
            views, _ = client.jobs(user=client.ping()["user"], most=1_000_000)
            jobs = [view["job"] for view in views]
        _each(client, jobs or [], "cancel", "cancelled", as_json)


@verb("hold", "Keep jobs from starting.", "cohabit hold 12")
def hold(jobs: Jobs, server: Server = None, as_json: AsJson = False) -> None:
    """Keep queued jobs from starting until they are released."""
    with asking(server) as client:
        _each(client, jobs, "hold", "held", as_json)


@verb("release", "Let held jobs start.", "cohabit release 12")
def release(jobs: Jobs, server: Server = None, as_json: AsJson = False) -> None:
    """Let held jobs start when it is their turn."""
    with asking(server) as client:
        _each(client, jobs, "release", "released", as_json)


@verb("requeue", "Stop jobs and queue them again.", "cohabit requeue 12")
def requeue(jobs: Jobs, server: Server = None, as_json: AsJson = False) -> None:
    """Stop running jobs and put them back into the queue; they begin again from their start."""
    with asking(server) as client:
        _each(client, jobs, "requeue", "queued again", as_json)


@verb("change", "Another limit or priority for a job.", "cohabit change 12 --limit 30m")
def change(
    job: OneJob,
    limit: Annotated[str | None, Option(metavar="T", help="New limit; operators may raise it.")] = None,
    qos: Annotated[int | None, Option(metavar="N", help="Priority, higher first; needs an operator.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Give a job another time limit or priority."""
    wishes: dict[str, Any] = {} if limit is None else {"limit_s": duration_s("--limit", limit)}
    wishes |= {} if qos is None else {"qos": qos}
    if not wishes:
        raise InputError("say what is to change", "", "give --limit or --qos")
    with asking(server) as client:
        view = client.change(job, wishes)
    show_result(view, as_json, f"job {view['job']}: changed; its limit is {span(view['limit_s'])}")


def _each(client: Any, names: list[str], action: str, past: str, as_json: bool) -> None:
    """Act on one job after the other; report failures at the end and continue with the others."""
    views: list[dict[str, Any]] = []
    refused: list[InputError] = []
    for name in names:
        try:
            views.append(client.act(name, action))
        except InputError as error:
            refused.append(error)
            continue
        if not as_json:
            echo(f"job {views[-1]['job']}: {past}")
    if as_json and (views or not refused):
        show_json({"jobs": views})
    elif not names:
        echo(f"nothing to {action}")
    if refused:
        first = refused[0]
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise InputError(first.what + more, first.where, first.fix)


def _lines(view: dict[str, Any]) -> list[tuple[str, str]]:
    """Return label and text of every line to show."""
    import shlex

    now, stands, ran = time.time(), outcome(view), view["started_at"] is not None
    cores = counted(view["cores"] or view["processes"], "core")
    on = "node" if len(view["nodes"]) == 1 else "nodes"
    where = f"{cores} on {on} {nodes_of(view)}" if view["nodes"] else ""
    lines = [
        ("job", f"{view['job']} of {view['user']}" + (f", account {view['account']}" if view.get("account") else "")),
        ("state", _with_why(stands, view["why"])),
        ("program", view["program"]),
        ("command", shlex.join(view["command"]) if view.get("command") else ""),
        ("asks for", f"{asked_for(view)} for up to {span(view['limit_s'])}"),
        ("runs on" if view["ended_at"] is None else "ran on", where),
        ("scale", f"spread over {view['scale']} times the nodes it needs" if (view["scale"] or 1) > 1 else ""),
        ("after", ", ".join(view["after"])),
        ("array", _array(view)),
        ("submitted", moment(view["submitted_at"], now) + _waited(view, now)),
        ("started", moment(view["started_at"], now) if view["started_at"] else ""),
        ("ended", moment(view["ended_at"], now) if view["ended_at"] else ""),
        ("ran for", span(ran_s(view, now)) if view["started_at"] else ""),
        ("attempt", str(view["attempt"]) if (view["attempt"] or 0) > 1 else ""),
        ("output", view["stdout"] if ran or view["ended_at"] is None else ""),
        ("errors", view["stderr"] if ran and view["stderr"] not in (None, view["stdout"]) else ""),
        ("slowed by", _slowdown(view)),
    ]
    return [(label, plain(text)) for label, text in lines if text]


def _with_why(stands: str, why: str) -> str:
    """Join state and reason without repetition."""
    if not why or why in stands:
        return stands
    return why if why.startswith(stands) else f"{stands}: {why}"


def _is_array(view: dict[str, Any]) -> bool:
    return bool(view["array"]) and view["job"] == view["name"]


def _array(view: dict[str, Any]) -> str:
    if not view["array"]:
        return ""
    return f"members {view['array']}" if _is_array(view) else f"member of {view['array']}"


def _waited(view: dict[str, Any], now: float) -> str:
    """Return how long it has waited or did wait; each member of an array waits for itself."""
    if _is_array(view):
        return ""
    waits = view["started_at"] is None and view["ended_at"] is None
    return f", {'waiting for' if waits else 'waited'} {span(waited_s(view, now))}"


def _slowdown(view: dict[str, Any]) -> str:
    parts = [
        f"{slowdown(view[key])} {word}"
        for key, word in (("predicted_slowdown", "expected"), ("actual_slowdown", "measured"))
        if view.get(key) is not None
    ]
    if view.get("slowdown_why"):
        parts.append(view["slowdown_why"])
    return ", ".join(parts)
