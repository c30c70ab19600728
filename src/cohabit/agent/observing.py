"""Run one program under sensors: launch it held, attach every source, release it, sample until it ends.

Used wherever a program is measured (measure, profile, the node's agent). The run time is the supervisor's own, so a
late sample cannot spoil it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cohabit.agent.launch.process import Ended, Request, find_command, launch
from cohabit.agent.sensors.source import Source, Watch
from cohabit.agent.sensors.summary import Readings, Sample, merge, of_totals, summarise
from cohabit.model.errors import InputError

INTERVAL_S = 0.25


def observe(
    request: Request, sources: Sequence[Source], folder: Path, limit_s: float, interval_s: float = INTERVAL_S
) -> tuple[Ended, Readings]:
    """Run a program beside sources that do not slow it down; stop it after `limit_s`."""
    samples: dict[str, list[Sample]] = {source.name: [] for source in sources}
    watches: dict[str, Watch] = {}
    with launch(request) as running:
        try:
            for source in sources:
                try:
                    watches[source.name] = source.watch(running.pid, folder)
                except OSError:  # its resource is used up now (groups, counters): absent in this run
                    continue
                samples[source.name].append((0.0, watches[source.name].sample()))
            began_s = time.monotonic()
            running.release()
            ended, due_s = None, began_s + interval_s
            while ended is None and time.monotonic() - began_s < limit_s:
                ended = running.wait(max(0.0, due_s - time.monotonic()))
                if ended is None:
                    for name, watch in watches.items():
                        samples[name].append((time.monotonic() - began_s, watch.sample()))
                    due_s = max(due_s + interval_s, time.monotonic())
            ended = ended or running.stop()
        finally:
            for name, watch in watches.items():
                last = watch.stop()
                if running.ended is not None:
                    samples[name].append((running.ended.run_s, last))
    return ended, merge([summarise(found, name, interval_s) for name, found in samples.items()])


def observe_inside(request: Request, source: Source, folder: Path, limit_s: float, alone_s: float) -> Readings:
    """Run a program inside a tool that slows it down; rates refer to `alone_s`, the run time without the tool."""
    inner = find_command(request.command, request.environment, request.folder)
    with launch(replace(request, command=(*source.prefix(folder), inner, *request.command[1:]))) as running:
        watch = source.watch(running.pid, folder)
        running.release()
        ended = running.wait(limit_s) or running.stop()
        totals = watch.stop()
    if ended.status != 0 or not totals:
        raise InputError(
            f"{request.command[0]!r} did not run inside {source.name} (status {ended.status})",
            "",
            f"leave {source.name} out of the sources",
        )
    return of_totals(totals, alone_s, source.name)
