"""The output of a simulation, on disk and terminal: summary.json, jobs.csv, jobs.parquet, report.html, journal."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

from cohabit.app.simulate.simulation import finished_jobs
from cohabit.model.errors import InputError
from cohabit.model.records import REJECTED, RunTable
from cohabit.report.metrics import summarise
from cohabit.report.predicted import slowdown_figures
from cohabit.report.summary_file import write_summary
from cohabit.report.variation import by_program
from cohabit.sim.journal import Journal
from cohabit.version import __version__


def check_folder(folder: Path) -> None:
    """Refuse early, before a long run, a folder that cannot be written; leave no file behind."""
    made: list[Path] = []
    try:
        for place in reversed([folder, *folder.parents]):
            if not place.exists():
                place.mkdir()
                made.append(place)
        probe = folder / f".cohabit-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"the output folder cannot be written: {why}", str(folder), "choose another") from error
    finally:
        for place in reversed(made):
            place.rmdir()


def load_writers() -> None:
    """Load the modules that write tables now, and not while a run is timed."""
    importlib.import_module("cohabit.report.tables")


def resident_mb() -> float:
    """Return the peak memory of this process so far."""
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def document(table: RunTable, opened_at: float) -> dict[str, Any]:
    """Return the JSON of `simulate`; wall_s runs from opening the trace until now."""
    wall_s = time.perf_counter() - opened_at
    jobs = finished_jobs(table)
    gates = {"gates": table.gates} if table.gates else {}
    return gates | {
        "jobs": jobs,
        "rejected": int((table.status == REJECTED).sum()),
        "events": table.events,
        "wall_s": round(wall_s, 4),
        "jobs_per_s": round(jobs / wall_s, 1) if wall_s > 0 else None,
        "rss_mb": resident_mb(),
        "seed": table.seed,
        "policy": table.policy,
        "scenario_hash": table.scenario_hash,
        "journal_hash": table.journal_hash,
        "version": __version__,
        "metrics": summarise(table),
        "programs": by_program(table),
        **slowdown_figures(table),
    }


def write_run(
    table: RunTable, journal: Journal, folder: Path, opened_at: float, *, report: bool, keep_journal: bool, title: str
) -> dict[str, Any]:
    """Write a run; each file is complete or absent. Return the summary, timed when jobs.csv was closed."""
    from cohabit.report import tables

    tables.write_jobs_csv(table, folder / "jobs.csv")
    summary = document(table, opened_at)
    if report or keep_journal:
        tables.write_jobs_parquet(table, folder / "jobs.parquet")
    if keep_journal:
        from cohabit.app.serve.journals import write_journals
        from cohabit.app.simulate.finished import ONLY

        write_journals({ONLY: journal}, folder / "journal.parquet")
    if report:
        from cohabit.report.html import write_report

        write_report([table], folder / "report.html", title=title)
    write_summary(summary | {"settings": table.settings}, folder / "summary.json")
    return summary
