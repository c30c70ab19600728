"""The Python interface: the figures of the command line, orders given as functions, frames, pictures, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cohabit
from cohabit.policy import registry

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "data" / "swf"
SMALL = {"cluster": {"nodes": 64}, "jobs": {"generator": "lublin", "jobs": 400, "load": 0.9}, "seed": 5}


@pytest.fixture(autouse=True)
def only_built_in_orders() -> Iterator[None]:
    """Orders added by a test go with it."""
    before = dict(registry.ORDERS)
    yield
    registry.ORDERS.clear()
    registry.ORDERS.update(before)


def short_first(jobs: Any, rows: Any, now_us: int, credit: float = 0.25) -> Any:
    return jobs.limit_us[rows] - credit * (now_us - jobs.submit_us[rows])


def test_a_run_is_the_one_of_the_command_line(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text('seed = 5\n[cluster]\nnodes = 64\n[jobs]\ngenerator = "lublin"\njobs = 400\nload = 0.9\n')
    run = cohabit.simulate(scenario, order="sjf", backfill="easy")
    told = subprocess.run(
        [sys.executable, "-m", "cohabit.cli", "simulate", str(scenario), "--order", "sjf", "--backfill", "easy",
         "--json"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    document = json.loads(told.stdout)
    assert run.table.journal_hash == document["journal_hash"]
    assert run.metrics == pytest.approx(document["metrics"], nan_ok=True)
    assert run.policy == document["policy"]


def test_plain_data_and_a_file_are_the_same_scenario(tmp_path: Path) -> None:
    run = cohabit.simulate(SMALL)
    assert run.jobs.height == 400
    assert {"job_id", "submit_s", "start_s", "end_s", "nodes", "status"} <= set(run.jobs.columns)
    folder = run.save(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    assert names == {"summary.json", "jobs.csv", "jobs.parquet", "report.html", "journal.parquet"}
    assert "400 jobs" in repr(run)
    assert "<td>fcfs + easy</td>" in run._repr_html_()


def test_an_order_given_as_a_function_is_used() -> None:
    cohabit.add_order("short_first", short_first)
    own = cohabit.simulate(SMALL, order="short_first", backfill="easy")
    assert own.metrics["mean_wait_s"] < cohabit.simulate(SMALL, backfill="easy").metrics["mean_wait_s"]  # type: ignore[operator]
    cohabit.add_order("short_first", lambda jobs, rows, now_us: jobs.submit_us[rows])  # the name again, now FCFS
    assert cohabit.simulate(SMALL, order="short_first", backfill="easy").table.start_us.tolist() == (
        cohabit.simulate(SMALL, order="fcfs", backfill="easy").table.start_us.tolist()
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_function_closes_over_counts(sign: int) -> None:
    """The same lines with another value are another order, whatever was compiled and kept before."""

    def by_size(jobs: Any, rows: Any, now_us: int) -> Any:
        order = sorted(range(len(rows)), key=lambda row: sign * int(jobs.nodes[rows[row]]))
        ranks = [0.0] * len(rows)
        for rank, row in enumerate(order):
            ranks[row] = float(rank)
        return ranks

    cohabit.add_order("by_size", by_size)
    means = cohabit.simulate(SMALL, order="by_size", backfill="easy").jobs
    builtin = "nodes_first" if sign > 0 else "wide_first"
    cohabit.add_order(builtin, (lambda jobs, rows, now_us: 1.0 * jobs.nodes[rows]) if sign > 0
                      else (lambda jobs, rows, now_us: -1.0 * jobs.nodes[rows]), changing=False)  # fmt: skip
    assert (
        means["start_s"].to_list() == cohabit.simulate(SMALL, order=builtin, backfill="easy").jobs["start_s"].to_list()
    )


def test_comparison_with_intervals_and_ratios(tmp_path: Path) -> None:
    found = cohabit.compare(SMALL, ["ce-easy", "sjf+easy"], repeats=3)
    assert found.policies == ("ce-easy", "sjf + easy")
    row = found.frame.filter(policy="sjf + easy", metric="mean_wait_s").row(0, named=True)
    assert row["low"] <= row["mean"] <= row["high"]
    assert row["ratio"] == pytest.approx(row["mean"] / found.mean("ce-easy", "mean_wait_s"))  # type: ignore[operator]
    assert found.report(tmp_path / "new" / "report.html").stat().st_size > 100_000
    with pytest.raises(cohabit.InputError, match="did you mean 'mean_wait_s'"):
        found.mean("ce-easy", "mean_wait")


@pytest.mark.parametrize("kind", ["utilisation", "queue", "waits", "slowdowns", "gantt"])
def test_pictures_have_colours_and_data(kind: str) -> None:
    figure = cohabit.simulate(SMALL).plot(kind, dark=True)
    assert figure is not None
    text = figure.to_json()
    assert len(figure.data) >= 1
    assert '"@' not in text  # every colour has been named


def test_a_sweep_gives_a_row_for_every_cell() -> None:
    cohabit.add_order("short_first", short_first)
    found = cohabit.sweep(SMALL, {"policy.order": ["fcfs", "short_first"], "jobs.load": [0.7, 0.9]})
    assert found.select("policy.order", "jobs.load").rows() == [
        ("fcfs", 0.7), ("fcfs", 0.9), ("short_first", 0.7), ("short_first", 0.9),
    ]  # fmt: skip
    alone = cohabit.simulate(SMALL, order="short_first", backfill="easy").metrics["mean_wait_s"]
    assert found["mean_wait_s"][3] == pytest.approx(alone)


def test_policies_are_listed() -> None:
    names = set(cohabit.policies()["name"])
    assert {"sns", "ce-easy", "fcfs", "easy", "spread", "utility", "variability"} <= names


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cohabit.simulate("nowhere.swf"), "nowhere.swf"),
        (lambda: cohabit.simulate(SMALL, order="fcsf"), "did you mean 'fcfs'"),
        (lambda: cohabit.simulate({"jobs": {"genrator": "lublin"}}), "genrator"),
        (lambda: cohabit.simulate(SMALL).plot("utilization"), "did you mean 'utilisation'"),
        (lambda: cohabit.add_order("fcfs", short_first), "already"),
        (lambda: cohabit.add_order("no name", short_first), "not a valid name of an order"),
        (lambda: cohabit.add_order("broken", lambda jobs, rows, now_us: jobs.colour[rows]), "cannot score"),
        (lambda: cohabit.sweep(SMALL, {}), "nothing to vary"),
    ],
)
def test_bad_input_is_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(cohabit.InputError) as refused:
        call()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_importing_the_package_is_light() -> None:
    heavy = ("numpy", "polars", "numba", "plotly")
    code = f"import sys, cohabit; cohabit.__version__; print([m for m in {heavy} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("log", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln"])
def test_the_order_of_the_examples_beats_fcfs_on_real_logs(log: str) -> None:
    own = f"{ROOT / 'examples' / 'orders' / 'short_and_patient.py'}+easy"
    found = cohabit.compare(LOGS / f"{log}.swf.xz", ["fcfs+easy", own])
    first, second = found.policies
    for metric in ("mean_wait_s", "mean_bounded_slowdown"):
        assert found.mean(second, metric) < 0.9 * found.mean(first, metric)  # type: ignore[operator]
