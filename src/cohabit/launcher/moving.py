"""Give a running job other cores: its control group, then every thread of it, until no thread is left on the old ones.

A process that was bound to the n-th of its old cores is bound to the n-th of the new ones, so that ranks stay apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cohabit.agent import control_groups
from cohabit.agent.topology import format_cpus
from cohabit.launcher.requests import Refused
from cohabit.launcher.runs import RunFolder, processes_of, threads_of

_ROUNDS = 50  # a program that forks faster than so many rounds of looking cannot be re-bound


def rebind(folder: RunFolder, old: Sequence[int], new: Sequence[int]) -> None:
    """Move every thread of the run from the old CPUs to the new ones; raise Refused if that cannot be done."""
    _allow(folder, {*old, *new})  # both at first: removing the old ones at once would lose the bindings of threads
    done: set[int] = set()
    for _ in range(_ROUNDS):
        if not (more := [one for one in threads_of(processes_of(folder)) if one not in done]):
            _allow(folder, set(new))
            return
        for thread in more:
            _bind(thread, old, new)
        done.update(more)
    raise Refused("its processes come faster than they can be re-bound")


def _allow(folder: RunFolder, cpus: set[int]) -> None:
    try:
        control_groups.rebind(folder.spec().get("groups", []), format_cpus(tuple(cpus)))
    except OSError as error:
        raise Refused(f"its control group refuses the new cores: {(error.strerror or '').lower()}") from error


def _bind(thread: int, old: Sequence[int], new: Sequence[int]) -> None:
    try:
        mine = os.sched_getaffinity(thread)
        if mine <= set(new) - set(old):
            return  # forked by a thread that was moved already
        at = [place for place, cpu in enumerate(old) if cpu in mine]
        apart = len(old) == len(new) and 0 < len(at) < len(old)
        os.sched_setaffinity(thread, [new[place] for place in at] if apart else new)
    except ProcessLookupError:
        return
    except OSError as error:
        raise Refused(f"a process of it cannot be re-bound: {(error.strerror or '').lower()}") from error
