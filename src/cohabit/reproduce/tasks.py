"""Run independent tasks on all cores: experiments are split into tasks, longest first, and gathered by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cohabit.app.simulate.quiet_workers import in_workers
from cohabit.version import __version__

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Task:
    """A call of a module's function with plain data; its answer is kept under its name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    cost: float = 1.0  # roughly seconds; the longest are begun first

    def __call__(self) -> Any:
        return self.function(**self.arguments)


class Kept(msgspec.Struct):
    """An answer on disk."""

    task: str
    key: str
    answer: Any


def run_tasks(
    tasks: Sequence[Task], workers: int | None = None, progress: Progress | None = None, kept: Path | None = None
) -> dict[str, Any]:
    """All answers by name; the order in which tasks end makes no difference.

    `kept` is a file to which answers are added as they come: a run that was stopped goes on from there.
    """
    assert len({task.name for task in tasks}) == len(tasks), "two tasks of one name"
    done = {} if kept is None else answers_in(kept, tasks)
    ordered = sorted((task for task in tasks if task.name not in done), key=lambda task: -task.cost)
    count = min(workers or os.cpu_count() or 1, len(ordered))
    keys = {task.name: key_of(task) for task in ordered}

    def note(name: str, answer: Any) -> None:
        done[name] = answer
        if kept is not None:
            keep(kept, name, keys[name], answer)
        if progress is not None:
            progress(len(done), len(tasks))

    if count <= 1:
        for task in ordered:
            note(task.name, task())
        return done
    with closing(in_workers(ordered, count)) as answers:
        for number, answer in answers:
            note(ordered[number].name, answer)
    return done


def key_of(task: Task) -> str:
    """Return what an answer depends on: the arguments of its task, and this version."""
    return hashlib.blake2b(f"{__version__} {sorted(task.arguments.items())}".encode(), digest_size=8).hexdigest()


def keep(file: Path, name: str, key: str, answer: Any) -> None:
    """Add an answer to the file, if it is plain data."""
    try:
        content = msgspec.json.encode(Kept(name, key, answer))
    except (TypeError, ValueError):
        return
    if msgspec.json.decode(content)["answer"] == answer:
        with file.open("ab") as stream:
            stream.write(content + b"\n")


def answers_in(file: Path, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the answers kept in the file to these tasks; a line that was cut, or says something else, is left out."""
    keys, found = {task.name: key_of(task) for task in tasks}, {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            one = msgspec.json.decode(line, type=Kept)
        except msgspec.DecodeError:
            continue
        if keys.get(one.task) == one.key:
            found[one.task] = one.answer
    return found
