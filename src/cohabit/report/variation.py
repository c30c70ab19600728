"""How much runs of the same program vary: varying runs, deviation per program, the longest run against the mean.

Run times of jobs that ask for the same program and number of processes are compared. In a simulation a run is
measured as a multiple of the run time that the workload states, without the canary before it; live it is in seconds.
Mean and deviation are frozen norms: of a comparison those of the first policy, over all its repeats; of a single run
its own. docs/metrics.md defines every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from cohabit.model.records import DONE, NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.report.metrics import LIVE, Floats, Ints, Metric
from cohabit.report.paper_metrics import run_deviation, variation_by_application, varying_runs

FEWEST_RUNS = 5  # of a program, for a mean and a deviation
LEAST_SIGMA = 0.01  # of the mean: what is nearer to the mean than 1.5 % of it is no variation

Kind = tuple[str, int]  # a program and its number of processes


@dataclass(frozen=True)
class Norm:
    """Mean and deviation of the runs of one program and size."""

    mean: float
    sigma: float


Norms = Mapping[Kind, Norm]


class Variation(TypedDict):
    """How far the runs of one program and size vary."""

    program: str
    processes: int
    runs: int
    mean_run_s: float
    run_variation: float
    deviation_sigma: float
    varying_runs: int
    longest_run_ratio: float


@dataclass(frozen=True)
class Runs:
    """The runs that ended well, of jobs with a known program."""

    row: Ints
    kinds: tuple[Kind, ...]
    kind: Ints  # index into `kinds`
    length: Floats  # multiples of the stated run time, or seconds
    unit_s: Floats  # seconds of length 1

    def of(self, kind: int) -> Floats:
        """Return the lengths of one kind."""
        return np.asarray(self.length[self.kind == kind], np.float64)


def _ended(run: RunTable) -> Ints:
    """Return the rows of jobs with a known program that ended well."""
    ended = (run.status == DONE) & (run.start_us != NEVER) & (run.end_us > run.start_us)
    return np.flatnonzero(ended & (run.workload.program >= 0) & (run.workload.run_us > 0)).astype(np.int64)


def _can_vary(run: RunTable) -> bool:
    """Return whether run times were measured, or are others than stated: those of a plain trace cannot change."""
    if run.workload.source == LIVE:
        return True
    row = _ended(run)
    return bool((run.end_us[row] - run.start_us[row] != run.workload.run_us[row]).any())


def runs_of(run: RunTable) -> Runs:
    """Return the runs to compare."""
    workload, row = run.workload, _ended(run)
    taken_us, stated_us = run.end_us[row] - run.start_us[row], workload.run_us[row]
    live = workload.source == LIVE
    unit_s = np.ones(len(row)) if live else (stated_us + run.canary_us) / SECOND
    codes = np.stack((workload.program[row].astype(np.int64), workload.processes[row]), axis=1)
    unique, kind = np.unique(codes, axis=0, return_inverse=True)
    kinds = tuple((str(workload.program_names[code]), int(processes)) for code, processes in unique)
    return Runs(row, kinds, kind.ravel().astype(np.int64), taken_us / SECOND / unit_s, unit_s)


def norms_of(runs: Sequence[Runs]) -> dict[Kind, Norm]:
    """Return mean and deviation of every program and size with enough runs; repeats are taken together."""
    lengths: dict[Kind, list[Floats]] = {}
    for one in runs:
        for index, kind in enumerate(one.kinds):
            lengths.setdefault(kind, []).append(one.of(index))
    joined = {kind: np.concatenate(parts) for kind, parts in lengths.items()}
    return {
        kind: Norm(float(own.mean()), max(float(own.std()), LEAST_SIGMA * float(own.mean())))
        for kind, own in joined.items()
        if len(own) >= FEWEST_RUNS
    }


def first_policy_norms(runs: Sequence[RunTable]) -> dict[Kind, Norm] | None:
    """Return the norms of the first policy of several; None: there is only one, and every run has its own norms."""
    if len({run.policy for run in runs}) < 2:
        return None
    if not any(_can_vary(run) for run in runs):
        return {}
    return norms_of([runs_of(run) for run in runs if run.policy == runs[0].policy])


def by_program(run: RunTable, norms: Norms | None = None) -> list[Variation]:
    """Return one row per program and size that has a norm and ran: its runs, their mean, and how far they vary."""
    if norms is None and not _can_vary(run):
        return []
    return variation_of(runs_of(run), norms)


def live_runs(ended: Sequence[tuple[str, int, int]]) -> Runs:
    """Return runs that were measured: program, number of processes, microseconds."""
    codes = {kind: code for code, kind in enumerate(sorted({(program, count) for program, count, _ in ended}))}
    kind = np.array([codes[program, count] for program, count, _ in ended], np.int64)
    length = np.array([took_us for _, _, took_us in ended], np.float64) / SECOND
    return Runs(np.arange(len(ended)), tuple(codes), kind, length, np.ones(len(ended)))


def variation_of(found: Runs, norms: Norms | None = None) -> list[Variation]:
    """Return the rows of these runs; None: against their own norms."""
    norms = norms_of([found]) if norms is None else norms
    rows: list[Variation] = []
    for index, (program, processes) in enumerate(found.kinds):
        norm, own = norms.get((program, processes)), found.of(index)
        if norm is None:
            continue
        seconds = own * found.unit_s[found.kind == index]
        deviation = run_deviation(own, norm.mean, norm.sigma)
        rows.append(
            {
                "program": program,
                "processes": processes,
                "runs": len(own),
                "mean_run_s": float(seconds.mean()),
                "run_variation": float(own.std() / own.mean()),
                "deviation_sigma": variation_by_application([program] * len(own), deviation)[program],
                "varying_runs": int(varying_runs(deviation).sum()),
                "longest_run_ratio": float(own.max() / norm.mean),
            }
        )
    return rows


def variation_metrics(run: RunTable, norms: Norms | None = None) -> dict[str, Metric]:
    """Return the same over all programs; None if no program has enough runs, or nothing can change run times."""
    rows = by_program(run, norms)
    if not rows:
        return {"varying_runs": None, "run_variation": None, "longest_run_ratio": None}
    return {
        "varying_runs": sum(row["varying_runs"] for row in rows),
        "run_variation": float(np.mean([row["run_variation"] for row in rows])),
        "longest_run_ratio": max(row["longest_run_ratio"] for row in rows),
    }
