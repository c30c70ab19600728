"""Run independent tasks on all cores: experiments are split into tasks, longest first, and gathered by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from cohabit.app.simulate.quiet_workers import in_workers

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


def run_tasks(tasks: Sequence[Task], workers: int | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """All answers by name; the order in which tasks end makes no difference."""
    assert len({task.name for task in tasks}) == len(tasks), "two tasks of one name"
    ordered = sorted(tasks, key=lambda task: -task.cost)
    count = min(workers or os.cpu_count() or 1, len(ordered))
    done: dict[str, Any] = {}

    def note(name: str, answer: Any) -> None:
        done[name] = answer
        if progress is not None:
            progress(len(done), len(ordered))

    if count <= 1:
        for task in ordered:
            note(task.name, task())
        return done
    with closing(in_workers(ordered, count)) as answers:
        for number, answer in answers:
            note(ordered[number].name, answer)
    return done
