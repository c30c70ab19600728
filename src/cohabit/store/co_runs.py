"""Co-runs in the profile store: by how much runs of a program were slowed beside which others, the latest of each.

Of a pair (or a group) on one kind of hardware the latest REMEMBERED runs are kept, one row each, so that runs since an
instant can be forgotten. Programs are named by `run_key`: one user's runs say nothing of another's. Functions of an
open connection; the transactions are the store's (store/profiles.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from cohabit.model.profile import KnownCoRun, key_parts
from cohabit.store.json_form import CoRunSample
from cohabit.store.schema import co_runs

REMEMBERED = 20  # runs of a pair


def add(connection: sa.Connection, found: Iterable[CoRunSample]) -> int:
    """Add runs, and drop those of the same pairs that are too many; return how many were added."""
    count = 0
    for one in found:
        program, owner = key_parts(one.program)
        pair = {"program": program, "owner": owner, "beside": _text(one.beside), "hardware": one.hardware}
        values = pair | {"percent": one.percent, "measured_at_us": one.measured_at_us}
        connection.execute(sa.insert(co_runs).values(**values))
        of_pair = [co_runs.c[name] == value for name, value in pair.items()]
        kept = sa.select(co_runs.c.id).where(*of_pair).order_by(co_runs.c.id.desc()).limit(1).offset(REMEMBERED - 1)
        oldest = connection.execute(kept).scalar()
        if oldest is not None:
            connection.execute(sa.delete(co_runs).where(*of_pair, co_runs.c.id < oldest))
        count += 1
    return count


def replace(connection: sa.Connection, found: Iterable[CoRunSample]) -> int:
    """Put these runs in place of all of the same pairs on the same hardware; return how many there are now of them."""
    runs = sorted(found, key=lambda one: one.measured_at_us)
    for program, beside, hardware in {(one.program, one.beside, one.hardware) for one in runs}:
        name, owner = key_parts(program)
        pair = {"program": name, "owner": owner, "beside": _text(beside), "hardware": hardware}
        connection.execute(sa.delete(co_runs).where(*(co_runs.c[key] == value for key, value in pair.items())))
    return add(connection, runs)


def load(connection: sa.Connection) -> list[CoRunSample]:
    """Return all runs in order of arrival."""
    rows = connection.execute(sa.select(co_runs).order_by(co_runs.c.id)).all()
    return [_sample(row) for row in rows]


def forget(connection: sa.Connection, program: str, owner: str | None, since_us: int | None = None) -> int:
    """Forget the runs of a program and those beside it (from an instant on); return how many there were."""
    gone = []
    for row in connection.execute(sa.select(co_runs)).all():
        sides = [(row.program, row.owner), *map(key_parts, _names(row.beside))]
        meant = any(name == program and owner in (None, whose) for name, whose in sides)
        if meant and (since_us is None or row.measured_at_us >= since_us):
            gone.append(row.id)
    if gone:
        connection.execute(sa.delete(co_runs).where(co_runs.c.id.in_(gone)))
    return len(gone)


def summaries(found: Iterable[CoRunSample], hardware: Collection[str] | None = None) -> tuple[KnownCoRun, ...]:
    """Return the mean of every pair, of runs on this hardware (None: on any)."""
    percents: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    for one in found:
        if hardware is None or one.hardware in hardware:
            percents.setdefault((one.program, one.beside), []).append(one.percent)
    return tuple(
        KnownCoRun(program, beside, sum(seen) / len(seen), min(len(seen), REMEMBERED))
        for (program, beside), seen in sorted(percents.items())
    )


def _sample(row: sa.Row[Any]) -> CoRunSample:
    key = f"{row.program}@{row.owner}" if row.owner else row.program
    return CoRunSample(key, tuple(_names(row.beside)), row.percent, row.hardware, row.measured_at_us)


def _text(names: Sequence[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def _names(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str])
