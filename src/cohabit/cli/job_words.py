"""Format jobs, times and nodes of a running scheduler for display. No rule of the scheduler is here."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from cohabit.model.node_names import short_form
from cohabit.model.units import duration

DAY_S = 86400
NOTHING = "-"


def span(seconds: float | None) -> str:
    """Format a span; unknown is a dash, and a clock that is a little ahead makes it no less than nothing."""
    return NOTHING if seconds is None else duration(max(seconds, 0.0))


def moment(at: float | None, now: float | None = None) -> str:
    """Format an instant in local time; with the day only if it is not within half a day from now."""
    if at is None:
        return NOTHING
    near = abs(at - (time.time() if now is None else now)) < DAY_S / 2
    return time.strftime("%H:%M:%S" if near else "%Y-%m-%d %H:%M", time.localtime(at))


def numbers(values: Iterable[int] | None) -> str:
    """Format numbers as ranges: 0-3,8"""
    found = sorted(values or ())
    spans = []
    for _, members in groupby(enumerate(found), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in members]
        spans.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(spans) or NOTHING


def nodes_of(view: dict[str, Any]) -> str:
    """Format the nodes of a job by name: n[0-3,8]; a server of an earlier version reports only numbers."""
    names = view.get("node_names")
    return short_form(names) if names else numbers(view["nodes"])


def counted(count: int, what: str) -> str:
    """Format a count: 1 job, 2 jobs, 3,000 jobs"""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def outcome(job: dict[str, Any]) -> str:
    """Return its state or how it ended, with the status or the signal if that adds information."""
    state = str(job["state"])
    if state == "killed":
        return f"killed: at its limit of {span(job['limit_s'])}"
    if state == "failed" and job.get("why"):
        return f"failed: {job['why']}"
    if state == "failed" and job.get("exit_signal"):
        return f"failed: signal {job['exit_signal']}"
    if state == "failed" and job.get("exit_status") is not None:
        hint = {126: " (a file in it is not executable)", 127: " (a command in it was not found)"}
        return f"failed: exit status {job['exit_status']}{hint.get(job['exit_status'], '')}"
    return state


def waited_s(job: dict[str, Any], now: float) -> float | None:
    """Return the time from submission to start, to the end of a job that never started, or to now."""
    until = job["started_at"] or job["ended_at"] or now
    return max(until - job["submitted_at"], 0.0) if job["submitted_at"] else None


def ran_s(job: dict[str, Any], now: float) -> float | None:
    """Return the time from start to end, or to now."""
    return max((job["ended_at"] or now) - job["started_at"], 0.0) if job["started_at"] else None


def plain(text: str) -> str:
    """Remove what would move the cursor or change colours: other users may have chosen this text."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)


def slowdown(factor: float | None) -> str:
    """Format how much longer than alone a job took, in percent."""
    return NOTHING if factor is None else f"{100 * (factor - 1):.0f} %"


def asked_for(job: dict[str, Any]) -> str:
    """Return 2 cores, or 3 whole nodes; a server of an earlier version reports only cores."""
    if nodes := job.get("whole_nodes"):
        return counted(nodes, "whole node")
    return counted(job["processes"], "core")


def shortened(text: str, most: int) -> str:
    """Cut a text to a maximum length."""
    return text if len(text) <= most else text[: most - 1] + "…"
