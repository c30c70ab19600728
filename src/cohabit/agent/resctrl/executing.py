"""Carry out planned writes against a resctrl file system: one by one, read back, stop at the first that fails.

After a failure nothing is undone: every prefix of a plan is a legal state, and the next plan starts from the state
found. Nothing here decides what is wanted, and no job is ever stopped from here.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cohabit.agent.resctrl.failures import Failure, explain, not_taken
from cohabit.agent.resctrl.files import Files
from cohabit.agent.resctrl.schemata import parse, text_of
from cohabit.agent.resctrl.writes import Enter, Make, Move, Remove, SetSchemata, Write

TasksOf = Callable[[str], Collection[int]]  # all current threads of a job
_NO_MOVES = (errno.EPERM, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP)
_ROUNDS = 50  # a program that forks faster than so many rounds of looking is not followed further


@dataclass
class Outcome:
    """The writes that were done, and the failure that stopped them."""

    done: list[Write] = field(default_factory=list)
    failure: Failure | None = None


@dataclass(frozen=True)
class Patience:
    """How often and at which interval an id that is not free yet (EBUSY) is requested; the agent must not hang."""

    tries: int = 5
    pause_s: float = 0.05
    sleep: Callable[[float], None] = time.sleep


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
            words = _read(files, root / "info" / "last_cmd_status")
            outcome.failure = explain(error, words, write, is_mounted(files, root))
            break
        if shown:
            assert isinstance(write, SetSchemata)
            outcome.failure = not_taken(write, shown)
            break
        outcome.done.append(write)
    return outcome


def is_mounted(files: Files, root: Path) -> bool:
    """Return whether the root still looks like resctrl; unmounting leaves an empty folder."""
    try:
        return "info" in files.names(root)
    except OSError:
        return False


def _do(files: Files, root: Path, write: Write, tasks_of: TasksOf, patience: Patience) -> str:
    """Carry out one write; return what a group shows if it is not what was written."""
    match write:
        case Make():
            _make(files, root / write.place, patience)
        case Remove():
            _remove(files, root / write.place)
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
            _enter(files, [root / group for group in write.groups], lambda: tasks_of(write.job))
    return ""


def _make(files: Files, place: Path, patience: Patience) -> None:
    for attempt in range(patience.tries):
        try:
            files.make(place)
        except FileExistsError:  # made by a plan that stopped here
            return
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == patience.tries - 1:
                raise
            patience.sleep(patience.pause_s)
        else:
            return


def _remove(files: Files, place: Path) -> None:
    try:
        files.remove(place)
    except FileNotFoundError:
        return


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
    _make(files, target, patience)
    # The class first: a monitoring group takes only tasks that are in its class.
    _enter(files, [target.parent.parent, target], lambda: [int(word) for word in files.read(source / "tasks").split()])
    _remove(files, source)


def _read(files: Files, path: Path) -> str:
    try:
        return files.read(path).strip()
    except OSError:
        return ""
