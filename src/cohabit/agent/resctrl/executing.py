"""Carry out planned writes against a resctrl file system: one by one, read back, stop at the first that fails.

After a failure nothing is undone: every prefix of a plan is a legal state, and the next plan starts from the state
found. Nothing here decides what is wanted, and no job is ever stopped from here.

A refusal is explained in one sentence. The kernel answers with an error number and, in info/last_cmd_status, with
words, which differ between kernels: they are matched loosely and always passed on.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cohabit.agent.resctrl.files import Files, Patience, is_mounted, make_group, read_if_there
from cohabit.agent.resctrl.schemata import parse, text_of
from cohabit.agent.resctrl.writes import Enter, Make, Move, Remove, SetSchemata, Write

TasksOf = Callable[[str], Collection[int]]  # all current threads of a job
_NO_MOVES = (errno.EPERM, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP)
REFUSED, LATER, LOST = "refused", "later", "lost"
UNMOUNTED = "resctrl is no longer mounted: jobs continue, the cache is not divided until it is mounted again"
_GONE = (errno.ENODEV, errno.ENOTCONN, errno.ESTALE)
_ROUNDS = 50  # a program that forks faster than so many rounds of looking is not followed further


@dataclass(frozen=True)
class Failure:
    """A failed write: refused (this job goes without), later (try again), lost (resctrl is not there)."""

    write: Write
    kind: str
    sentence: str


@dataclass
class Outcome:
    """The writes that were done, and the failure that stopped them."""

    done: list[Write] = field(default_factory=list)
    failure: Failure | None = None


def no_tasks(job_id: str) -> Collection[int]:
    """Return the threads of a job that has not started: none."""
    return ()


def carry_out(
    files: Files, root: Path, writes: Iterable[Write], tasks_of: TasksOf = no_tasks, patience: Patience | None = None
) -> Outcome:
    """Carry out all writes in order, up to the first that fails."""
    outcome = Outcome()
    for write in writes:
        try:
            shown = _do(files, root, write, tasks_of, patience or Patience())
        except OSError as error:
            words = read_if_there(files, root / "info" / "last_cmd_status").strip()
            outcome.failure = explain(error, words, write, is_mounted(files, root))
            break
        if shown:
            outcome.failure = Failure(write, LATER, f"{_action(write)} was accepted, but the group shows {shown}")
            break
        outcome.done.append(write)
    return outcome


def _do(files: Files, root: Path, write: Write, tasks_of: TasksOf, patience: Patience) -> str:
    """Carry out one write; return what a group shows if it is not what was written."""
    match write:
        case Make():
            make_group(files, root / write.place, patience)
        case Remove():
            with contextlib.suppress(FileNotFoundError):
                files.remove(root / write.place)
        case SetSchemata():
            files.write(root / write.place / "schemata", text_of(write.values))
            shown = parse(files.read(root / write.place / "schemata"))
            for resource, values in write.values.items():
                if any(shown.get(resource, {}).get(domain) != value for domain, value in values.items()):
                    return text_of({resource: shown.get(resource, {})}).strip() or f"no {resource}"
        case Move():
            try:
                files.move(root / write.source, root / write.target)
            except OSError as error:
                if error.errno not in _NO_MOVES:
                    raise
                _move_by_hand(files, root, write, patience)
        case Enter():
            _enter(files, [root / group for group in write.groups], lambda: tasks_of(write.jobs[0]))
    return ""


def _enter(files: Files, groups: list[Path], tasks: Callable[[], Collection[int]]) -> None:
    """Put every thread into the groups, and look again until no new one appears: later threads inherit the group."""
    moved: set[int] = set()
    for _ in range(_ROUNDS):
        more = set(tasks()) - moved
        if not more:
            return
        for task in sorted(more):
            for group in groups:
                try:
                    files.write(group / "tasks", f"{task}\n")
                except ProcessLookupError:  # it ended meanwhile
                    break
        moved |= more


def _move_by_hand(files: Files, root: Path, write: Move, patience: Patience) -> None:
    """Move a group on kernels before 6.5, which cannot do it: make a new one, move the tasks, remove the old one. Its
    counters start from zero."""
    source, target = root / write.source, root / write.target
    make_group(files, target, patience)
    # The class first: a monitoring group takes only tasks that are in its class.
    _enter(files, [target.parent.parent, target], lambda: [int(word) for word in files.read(source / "tasks").split()])
    with contextlib.suppress(FileNotFoundError):
        files.remove(source)


def explain(error: OSError, words: str, write: Write, mounted: bool) -> Failure:
    """Explain an error; `words` are the kernel's, "ok" or empty if there are none; `mounted`: resctrl is readable."""
    number = error.errno or 0
    told = "" if words in ("", "ok") else f" ({words})"
    if not mounted or number in _GONE:
        return Failure(write, LOST, UNMOUNTED)
    what = _action(write)
    if number == errno.ENOSPC:
        monitoring = "rmid" in words.lower() or (isinstance(write, Make) and "mon_groups" in write.place)
        scarce = "monitoring ids" if monitoring else "classes of service"
        sentence = f"{what} failed: the processor is out of {scarce}{told}; it runs without them"
        return Failure(write, REFUSED, sentence)
    if number == errno.EBUSY:
        return Failure(write, LATER, f"{what} must wait: ids given back lately are not free yet{told}")
    if number == errno.EIO:
        return Failure(write, LATER, f"{what} failed with an input/output error{told}; it is tried again")
    if number in (errno.EPERM, errno.EACCES):
        return Failure(write, REFUSED, f"{what} is not allowed{told}; run the agent as root")
    if number == errno.ENOENT:
        return Failure(write, LATER, f"{what} failed: the group was removed meanwhile; it is made again")
    reason = told or f" ({os.strerror(number).lower()})"
    return Failure(write, REFUSED, f"the kernel refused to {what[0].lower()}{what[1:]}{reason}")


def _action(write: Write) -> str:
    """Return what was tried, and for which jobs."""
    match write:
        case Make():
            what = f"Make group {write.place}"
        case SetSchemata():
            what = f"Set the shares of group {write.place}"
        case Move():
            what = f"Move {write.source} to {write.target}"
        case Enter():
            what = f"Put processes into {write.groups[-1]}"
        case Remove():
            what = f"Remove group {write.place}"
    return f"{what} for job {', '.join(write.jobs)}" if write.jobs else what
