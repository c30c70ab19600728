"""Co-run data as people have it, made ready to learn from: other targets, empty cells, duplicates, groups, noise.

Each function says in a sentence what it found and did, or refuses with line and remedy. Nothing here reads files or
learns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cohabit.model.counters import RATIOS
from cohabit.model.errors import InputError, unknown
from cohabit.model.features import TIME, counter_of
from cohabit.predict.features import Floats
from cohabit.predict.members import JOINT

PERCENT, TIMES, LATENCY, THROUGHPUT = TARGETS = ("percent", "time", "latency", "throughput")
CONTRADICTION = 1.5  # times: how far run times of one pair may lie apart before they contradict each other
NOISY_PERCENT = 5.0  # of runs alone, beyond which it is said
MOST_GAPS = 0.5  # of the programs: a column that fewer have is left out
LOWEST_RATIO, HIGHEST_RATIO = 1e-3, 1e3
NAMED = 3


@dataclass
class Rows:
    """The rows of a file, NaN where a cell is empty; `notes` gathers what is done to them."""

    where: str
    lines: list[int]
    app: list[str]
    other: list[str]  # empty: a run alone
    suite: list[str]
    own: Floats  # [row, column]
    beside: Floats
    target: Floats | None
    alone: Floats | None  # in the unit of the target
    noise: Floats | None  # percent, of runs alone
    own_names: list[str]
    beside_names: list[str]
    notes: list[str] = field(default_factory=list)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        for name in ("lines", "app", "other", "suite"):
            setattr(self, name, [getattr(self, name)[row] for row in rows])
        for name in ("own", "beside", "target", "alone", "noise"):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[list(rows)])

    def at(self, row: int, column: str) -> str:
        """Name a cell."""
        return f"{self.where}, line {self.lines[row]}, {column}"


def to_percent(data: Rows, kind: str) -> None:
    """Turn times, latencies or throughputs into the percentage by which the first is slower than alone."""
    if kind not in TARGETS:
        raise unknown("target", kind, TARGETS)
    if kind == PERCENT or data.target is None:
        return
    runs_alone = [row for row, other in enumerate(data.other) if not other]
    alone = data.alone if data.alone is not None else np.full(len(data.app), np.nan)
    known: dict[str, list[float]] = {}
    for row in runs_alone:
        known.setdefault(data.app[row], []).append(float(data.target[row]))
    medians = {name: float(np.nanmedian(values)) for name, values in known.items() if not np.all(np.isnan(values))}
    if kind == TIMES and TIME in data.own_names and data.alone is None and not known:
        alone = data.own[:, data.own_names.index(TIME)]
    given = zip(data.app, alone.tolist(), strict=True)
    alone = np.array([medians.get(app, value) if np.isnan(value) else value for app, value in given])
    together = [row for row in range(len(data.app)) if data.other[row]]
    ratios = data.alone is None and not known and np.isnan(alone).all()
    if ratios:
        alone = np.ones(len(data.app))
        data.notes.append(f"there is no {kind} alone, so targets are read as ratios to it (1: as fast as alone)")
    for row in together:
        value, base = float(data.target[row]), float(alone[row])
        if math.isnan(value):
            continue
        fix = "add a column alone, or a row of the program with an empty other"
        if math.isnan(base):
            raise InputError(f"the {kind} of {data.app[row]!r} alone is not known", data.at(row, "target"), fix)
        if value <= 0 or base <= 0:
            what = f"is a {kind} of {min(value, base):g}"
            raise InputError(what, data.at(row, "target"), "leave the cell empty where the run failed")
        ratio = base / value if kind == THROUGHPUT else value / base
        if not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
            what = f"is {ratio:g} times as slow as alone, which no co-run is"
            raise InputError(what, data.at(row, "target"), fix if ratios else "check the units of target and alone")
        data.target[row] = 100.0 * (ratio - 1.0)
    if runs_alone:
        data.noise = _spread_alone(data, known)
        data.keep(together)


def _spread_alone(data: Rows, known: Mapping[str, Sequence[float]]) -> Floats:
    several = {name: values for name, values in known.items() if len(values) > 1 and np.mean(values) > 0}
    spread = {name: 100.0 * float(np.std(values, ddof=1) / np.mean(values)) for name, values in several.items()}
    return np.array([spread.get(name, np.nan) for name in data.app])


def without_target_gaps(data: Rows) -> None:
    """Leave out rows whose target is empty."""
    assert data.target is not None
    empty = np.isnan(data.target)
    if empty.all():
        raise InputError("has no target in any row", data.where, "give the slowdown of some pairs")
    if empty.any():
        data.notes.append(f"{int(empty.sum())} of {len(empty)} rows have no target and are left out")
        data.keep(np.flatnonzero(~empty).tolist())


def fill_gaps(data: Rows) -> None:
    """Fill empty counters with what other rows say of the program, else with the column's median; say so."""
    filled, gone = 0, []
    for side in ("own", "beside"):
        names, table = getattr(data, f"{side}_names"), getattr(data, side)
        programs = np.array(data.app if side == "own" else data.other)
        keep = []
        for column, name in enumerate(names):
            values = table[:, column]
            gaps = np.isnan(values)
            if gaps.any():
                has = set(programs[~gaps].tolist())
                if len(has) < MOST_GAPS * len(set(programs.tolist())):
                    gone.append(name if name == TIME else f"{'primary' if side == 'own' else 'other'}.{name}")
                    continue
                filled += int(gaps.sum())
                usual = float(np.median(values[~gaps]))
                known = {one: float(np.median(values[~gaps & (programs == one)])) for one in has}
                values[gaps] = [known.get(one, usual) for one in programs[gaps].tolist()]
            keep.append(column)
        setattr(data, f"{side}_names", [names[column] for column in keep])
        setattr(data, side, table[:, keep])
    if filled:
        data.notes.append(
            f"{filled} counters are empty and taken from other rows of the program, or the column's median"
        )
    if gone:
        data.notes.append(f"columns that most programs lack are left out: {_some(gone)}")


def merge_duplicates(data: Rows, average: bool) -> None:
    """Average rows of one pair and say how far they lie apart; refuse those that contradict each other."""
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, pair in enumerate(zip(data.app, data.other, strict=True)):
        rows_of.setdefault(pair, []).append(row)
    if len(rows_of) == len(data.app):
        return
    widest, merged = 0.0, 0
    for (app, other), rows in rows_of.items():
        if len(rows) == 1:
            continue
        merged += len(rows)
        if data.target is not None:
            low, high = (end(rows, key=lambda row: float(data.target[row])) for end in (min, max))  # type: ignore[index]
            least, most = (max(1.0 + float(data.target[row]) / 100.0, 1e-3) for row in (low, high))
            if most > CONTRADICTION * least and not average:
                what = f"{app} beside {other} slows by {data.target[low]:g} % here and by {data.target[high]:g} %"
                fix = f"keep the right one, or average them with --average (line {data.lines[high]})"
                raise InputError(f"{what} in line {data.lines[high]}", data.at(low, "target"), fix)
            widest = max(widest, float(data.target[high] - data.target[low]))
            data.target[rows[0]] = float(np.mean(data.target[rows]))
        data.own[rows[0]] = _mean(data.own[rows])
        data.beside[rows[0]] = _mean(data.beside[rows])
    apart = f", their targets up to {widest:.0f} points apart" if data.target is not None else ""
    repeated = sum(len(rows) > 1 for rows in rows_of.values())
    data.notes.append(f"{merged} rows are repeats of {repeated} pairs and are averaged{apart}")
    data.keep([rows[0] for rows in rows_of.values()])


def _mean(rows: Floats) -> Floats:
    """Return the mean of every column over the rows that have it."""
    have = ~np.isnan(rows)
    total = np.where(have, rows, 0.0).sum(axis=0)
    return np.where(have.any(axis=0), total / np.maximum(have.sum(axis=0), 1), np.nan)


def remark_on_noise(data: Rows) -> None:
    """Say which programs vary by themselves: no prediction of them can be better than that."""
    found: dict[str, float] = {}
    times = data.own[:, data.own_names.index(TIME)] if TIME in data.own_names else None
    for name in dict.fromkeys(data.app):
        rows = [row for row, app in enumerate(data.app) if app == name]
        told = data.noise is not None and not np.isnan(data.noise[rows]).all()
        said = float(np.nanmax(data.noise[rows])) if data.noise is not None and told else 0.0
        seen = 0.0
        if times is not None and len(rows) > 1 and not np.isnan(times[rows]).any() and np.mean(times[rows]) > 0:
            seen = 100.0 * float(np.std(times[rows], ddof=1) / np.mean(times[rows]))
        found[name] = max(said, seen)
    noisy = sorted((name for name in found if found[name] > NOISY_PERCENT), key=lambda name: -found[name])
    if noisy:
        words = _some([f"{name} by {found[name]:.0f} %" for name in noisy])
        data.notes.append(f"runs alone vary: {words}; slowdowns of these programs are known no better than that")


def as_groups(data: Rows) -> None:
    """Give rows beside several programs (`b+c`) the counters of the group where their cells are empty: sums of
    amounts and levels, means of ratios."""
    alone = {name for name in (*data.app, *data.other) if JOINT not in name}
    first = {name: row for row, name in reversed(list(enumerate(data.other)))}
    groups = 0
    for row, other in enumerate(data.other):
        members = other.split(JOINT)
        if len(members) < 2 or not alone.issuperset(members):
            continue
        groups += 1
        empty = np.isnan(data.beside[row])
        if not empty.any():
            continue
        sources = [first.get(name) for name in members]
        if None in sources:
            what = f"no row tells the counters of all of {other}"
            raise InputError(what, data.at(row, "other"), "give its other.* cells")
        parts = data.beside[[one for one in sources if one is not None]]
        ratio = np.array([counter_of(name) in RATIOS for name in data.beside_names], bool)
        data.beside[row] = np.where(empty, np.where(ratio, parts.mean(axis=0), parts.sum(axis=0)), data.beside[row])
    if groups:
        data.notes.append(f"{groups} rows are beside several programs")


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
