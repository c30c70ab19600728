"""What starting together costs, by hand: synchronisation, service-unit loss, groups that started together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cohabit.model.records import DONE, NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.report import paper_metrics as paper
from cohabit.report.coupled import render_coupled_report
from cohabit.report.mates import MATES_GLOSSARY, groups_together, summarise_mates
from cohabit.trace.synthetic import synthetic_workload


def table(start_s: list[float | None], group: list[str | None], ready_s: list[float], held_s: list[float]) -> RunTable:
    count = len(start_s)
    ones = np.ones(count, np.int64)
    jobs = synthetic_workload(ones * 0, ones * 100 * SECOND, ones * 100 * SECOND, ones * 4, nodes=8, source="by hand")
    extra = {
        "group": np.array(group, object), "first_ready_s": np.array(ready_s), "held_s": np.array(held_s),
        "yields": np.arange(count), "domain": np.array(["d"] * count, object),
    }  # fmt: skip
    starts = np.array([NEVER if at is None else round(at * SECOND) for at in start_s])
    return RunTable(
        replace(jobs, extra=extra), starts, np.where(starts == NEVER, NEVER, starts + 100 * SECOND),
        np.full(count, 4, np.int32), np.where(starts == NEVER, 0, 4), np.ones(count, np.int32),
        np.full(count, DONE, np.int8), np.zeros(count, np.int32), ("",), 8, 8, "by hand", 1, 0,
    )  # fmt: skip


def test_synchronisation_and_loss_by_hand() -> None:
    told = summarise_mates(table([60, 10, 300], ["g1", None, "g2"], [20, np.nan, 300], [30, 0, 0]))
    assert told["mates_total"] == told["mates_started"] == 2
    assert told["mean_sync_s"] == (40 + 0) / 2
    assert told["max_sync_s"] == 40
    assert told["held_node_hours"] == pytest.approx(30 * 4 / 3600)
    assert told["held_share"] == pytest.approx(30 * 4 / (8 * 400))
    assert told["yields"] == 3
    assert told["mean_wait_mates_s"] == 180
    assert told["mean_wait_others_s"] == 10
    assert told["mean_slowdown_others"] == pytest.approx(1.1)
    assert set(told) == set(MATES_GLOSSARY)


def test_the_reports_numbers_are_those_of_the_papers_formulas() -> None:
    """C18 and C19, computed by other code."""
    run = table([60, 90, 300], ["g1", "g1", "g2"], [20, 90, 250], [30, 0, 45])
    told, starts_s = summarise_mates(run), run.start_us / SECOND
    lost = paper.service_unit_loss_node_hours([4, 4, 4], [30, 0, 45])
    assert told["mean_sync_s"] == pytest.approx(60 * (paper.sync_time_minutes([20, 90, 250], starts_s) or 0))
    assert told["held_node_hours"] == pytest.approx(lost)
    assert told["held_share"] == pytest.approx(paper.service_unit_loss_fraction(lost, machine_nodes=8, span_s=400))


def test_without_mates_nothing_is_lost() -> None:
    told = summarise_mates(table([60], [None], [np.nan], [0]))
    assert told["mates_total"] == told["held_node_hours"] == told["held_share"] == 0
    assert told["mean_sync_s"] is None


def test_groups_together_and_apart() -> None:
    one = table([60, 70, None], ["g1", "g2", "g3"], [60, 70, np.nan], [0, 0, 0])
    two = table([60, 75, 80], ["g1", "g2", "g3"], [60, 75, 80], [0, 0, 0])
    told = groups_together({"a": one, "b": two})
    assert (told["groups"], told["groups_started"], told["groups_together"]) == (3, 2, 1)
    assert told["groups_not_started"] == 1
    assert told["max_apart_s"] == 5
    assert groups_together({"a": one, "b": two}, [0, 5 * SECOND])["groups_together"] == 1
    assert groups_together({"a": table([1], [None], [np.nan], [0])})["max_apart_s"] is None


def test_the_page_names_a_deadlock_and_escapes_names() -> None:
    one = table([60, None], ["<g1>", "g2"], [60, np.nan], [0, 0])
    coupling = groups_together({"<a>": one, "b": one}) | {"deadlock": ["g2", "g9"], "messages": 1}
    page = render_coupled_report({"<a>": one, "b": one}, coupling, "two")
    assert "g2 waits for g9" in page
    assert "Domain &lt;a&gt;" in page
    assert "<a>" not in page
