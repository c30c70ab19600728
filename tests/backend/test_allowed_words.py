"""The launcher's list of calls is exactly what the back ends build: each call of theirs is taken."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from cohabit.backend.gridengine import commands as of_gridengine
from cohabit.backend.gridengine import submitting as to_gridengine
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.protocol import Launch
from cohabit.backend.slurm import commands as of_slurm
from cohabit.backend.slurm.submitting import sbatch_words
from cohabit.backend.steered.marks import BACK, SHARED, WHOLE, Before, back_mark, held_mark, run_mark
from cohabit.backend.steered.submitting import Extra
from cohabit.launcher import gridengine_words, slurm_words
from cohabit.model.job import Job

BEFORE = Before(1, 4, 2, 8)
MARKS = (BACK, back_mark("flood"), held_mark(), held_mark("flood", True), run_mark(3, BEFORE, "a.b-c"),
         run_mark(1, BEFORE._replace(made=WHOLE)), run_mark(1, BEFORE._replace(made=SHARED)))  # fmt: skip
SLURM: dict[str, list[tuple[Any, ...]]] = {
    "list_jobs_json": [(), ("v0.0.44",)], "list_numbers": [()], "show_script": [("7",)], "list_jobs_text": [()],
    "show_job": [("7",), ("7_3",)], "list_nodes": [()], "list_partitions": [()], "list_reservations": [()],
    "show_config": [()],
    "accounting": [(["7"],), (["7", "8_1"],)],
    "place": [("7", ["n0", "n1"], 4, mark, made) for mark in MARKS for made in ("", WHOLE, SHARED)],
    "unplace": [("7", BEFORE, 8, BACK), ("7", BEFORE._replace(made=WHOLE), 8, BACK)],
    "mark": [(["7", "8_2"], mark) for mark in MARKS], "release": [(["7"],), (["7", "8_1"],)], "hold": [("7",)],
    "change_limit": [("7", 61.0)], "requeue_held": [("7",)], "cancel": [("7_1",)],
}  # fmt: skip
CONTEXT = {"cohabit": MARKS[4], "cohabit_asked": "shared", "cohabit_queue": "all.q"}
REQUESTS = {"h_rt": "60", "arch": "lx*|sol*", "exclusive": "true"}
GRID_ENGINE: dict[str, list[tuple[Any, ...]]] = {
    "describe_jobs": [()], "describe_job": [("7",)], "list_jobs": [()], "list_hosts": [()],
    "show_environment": [("mpi",)], "show_complexes": [()], "show_host": [("ge0.example.org",)],
    "show_queue": [("all.q",)], "version": [()], "accounting": [("7",)],
    "place": [("7", ["all.q@ge0", "all.q@ge1"], requests, CONTEXT) for requests in ({}, REQUESTS)],
    "unplace": [("7", "*", REQUESTS, {"cohabit": BACK}), ("7", "all.q", {}, {"cohabit": BACK})],
    "request": [("7", REQUESTS)], "note": [("7", {"cohabit_hold": "s"}), *(("7", {"cohabit": mark}) for mark in MARKS)],
    "hold": [("7",), ("7", "u")], "release": [("7",), ("7", "u")], "suspend": [("7",)], "cancel": [("7.2",)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("built", "allowed", "cases", "others"),
    [
        (of_slurm, slurm_words, SLURM, {"checked", "is_number", "line_of", "changes_nothing"}),
        (of_gridengine, gridengine_words, GRID_ENGINE, {"checked", "changes_nothing"}),
    ],
)
def test_every_call_that_is_built_is_taken(
    built: ModuleType, allowed: ModuleType, cases: dict[str, list[tuple[Any, ...]]], others: set[str]
) -> None:
    own = {name for name, one in inspect.getmembers(built, inspect.isfunction) if one.__module__ == built.__name__}
    assert {name for name in own if not name.startswith("_")} - others == cases.keys()
    for name, arguments in cases.items():
        for some in arguments:
            words = getattr(built, name)(*some)
            assert words[0] in allowed.PROGRAMS
            allowed.check(list(words), "")


def test_several_calls_of_scontrol_from_its_input() -> None:
    lines = [of_slurm.line_of(of_slurm.place(*some)) for some in SLURM["place"]]
    slurm_words.check(list(of_slurm.SEVERAL), "".join(f"{line}\n" for line in lines))


JOBS = (
    Job("a", 60_000_000, processes=2), Job("a", 60_000_000, nodes=1, processes=2, requeue=False, partition="all"),
    Job("a", 60_000_000, account="a.b@c"),
    Job("a", 60_000_000, processes=2, exclusive=True, single_node=True, memory_bytes=2**30),
    Job("a", 60_000_000, array_first=1, array_count=4, array_at_most=2),
)  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
def test_every_submission_that_is_built_is_taken(job: Job) -> None:
    for threads in (1, 2):
        launch = Launch(
            ("true",), {"COHABIT_THRESHOLD_PATIENCE_S": "2.5"}, folder="/a folder", stdout="o %j", stderr="/e",
            threads=threads,
        )  # fmt: skip
        for extra in (Extra(), Extra("3 names; --uid=0", ("7", "8"), "cohabit:mates=a.b")):
            slurm_words.check_submission(list(sbatch_words(job, launch, extra)))
            site = Site(("all.q",), 4, {}, "exclusive", "cohabit", most_slots=4, spread="mpi", one_host="smp")
            gridengine_words.check_submission(list(to_gridengine.qsub_words(job, launch, extra, site)))
