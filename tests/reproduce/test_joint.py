"""The joint policy beside the others, in small: rows, bands, workloads, requests of real users, judged placements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.model.units import SECOND
from cohabit.optimise import law
from cohabit.optimise.schemes import outcome
from cohabit.optimise.tables import Problem, prepare
from cohabit.report.reproduction import render_page
from cohabit.reproduce.joint import arrivals, sequences, static, traces
from cohabit.reproduce.joint.estimates import document_of, requests_s, table
from cohabit.reproduce.joint.plan import CE_SAF, OURS, OURS_SAF, PLANNED, Plan, Sizes
from cohabit.reproduce.papers import PAPERS, Options, Reproduction, reproduce
from cohabit.reproduce.rows import contract
from cohabit.reproduce.shepherd.lab import NODES, Case
from cohabit.reproduce.sns.lab import ROUGH, Bench, Strategy
from cohabit.reproduce.sns.sequences import Sequence20, run_sequences
from cohabit.sim.streams import stream
from cohabit.trace.shepherd_programs import drawn
from cohabit.trace.synthetic import offered_load
from tests.public_data import SLICES, whole

TINY = Sizes(
    sets=1, sequences=2, jobs=8, hidden_sets=2, hidden_sequences=1, error_sets=1, error_sequences=1,
    ablation_sequences=1, ablation_arrivals=1, trinity_jobs=20, trinity_draws=2, large_draws=0, beside_draws=1,
    arrival_sets=1, arrivals=1, arrival_jobs=12, mix_sets=1, mixes=1, queue_sets=1, queues=1,
    queue_jobs=8, trees=10, searching=False,
)  # fmt: skip
TABLE = Path(__file__).resolve().parents[2] / "src" / "cohabit" / "reproduce" / "joint" / "estimates.json"


def tiny(**more: Any) -> Options:
    return Options(quick=True, workers=1, sizes=TINY, **{"shared": "/nowhere", **more})


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce("joint", tiny(seed=3), draw=True)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return prepare(drawn(Case().suite(0), stream(5, "mix"), NODES))


def test_every_row_of_the_specification_is_measured_and_keeps_its_band(small: Reproduction) -> None:
    document = json.loads(json.dumps(small.document(), allow_nan=False))
    found = {one["id"]: one for one in document["rows"]}
    rows = {name: about for name, about in contract().items() if name.startswith(PAPERS["joint"])}
    assert len(rows) == 17
    for name, about in rows.items():
        assert (found[name]["low"], found[name]["high"], found[name]["role"]) == (about.low, about.high, about.role)
        absent = name.startswith("J.trinity")
        assert (found[name]["measured"] is None) == absent, name
    assert "instead of 36" in found["J.fcfs_gain_pct"]["note"]


def test_without_the_trace_its_rows_say_where_to_put_it(small: Reproduction) -> None:
    rows = [one for one in small.rows if one.id.startswith("J.trinity")]
    assert len(rows) == 3
    assert all("COHABIT_SHARED" in one.note for one in rows)


def test_the_others_stand_beside_it_on_the_same_inputs(small: Reproduction) -> None:
    names = {one.id for one in small.rows}
    for world in (sequences.CATALOGUE, sequences.HIDDEN):
        assert {f"J-{world}.{name}_gain_pct" for name in ("ce_easy", "cs", "sns", "cohabit")} <= names
    assert {f"J-mixes.{name}_gain_pct" for name in ("ce", "cs", "sns", "shepherd", "cohabit", "search")} <= names
    assert {f"J-arrivals.{name}_09_gain_pct" for name in ("ce", "cs", "sns", "cohabit")} <= names


def test_the_page_has_every_row_and_picture(small: Reproduction) -> None:
    pictures = [(one.title, one.figure, one.caption) for one in small.pictures]
    page = render_page(small.document(), small.title, small.about, set(contract()), pictures)
    assert all(one.id in page for one in small.rows)
    assert page.count('class="plot"') == len(pictures) == 5


@pytest.mark.wide
@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(small: Reproduction) -> None:
    assert reproduce("joint", tiny(seed=3)).document() == small.document()
    assert [one.measured for one in reproduce("joint", tiny(seed=4)).rows] != [one.measured for one in small.rows]


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("folder", [path.parents[2] for path in whole("lanl/LANL-Trinity-atlas-concat.swf.xz")])
def test_with_the_trace_its_rows_are_measured(folder: Path) -> None:
    found = reproduce("joint", tiny(seed=4, shared=str(folder), programs="hidden", salt="nobody knows"), draw=True)
    assert all(one.measured is not None for one in found.rows if one.id.startswith("J.trinity_4k_0"))
    assert len(found.pictures) == 6


def test_hidden_programs_differ_from_set_to_set() -> None:
    plan = Plan(tiny(seed=1))
    first, second = plan.drawn(0).programs, plan.drawn(1).programs
    assert {one.mu for one in first.values()} != {one.mu for one in second.values()}


def test_a_strategy_is_a_bundle_with_keys_of_its_own() -> None:
    alone, saf = Strategy("by age", "ce"), Strategy("smallest area first", "ce", (("order", "saf"),))
    (one,) = run_sequences(Bench(), 1, 0, [0], 20, ("ce", alone, saf), ROUGH)
    assert one.gain_pct("by age") == 0.0
    assert one.gain_pct("smallest area first") > 0.0, "short jobs first lowers the mean turnaround"


def test_violations_and_losses_are_counted_for_the_strategy_that_is_asked_about() -> None:
    (one,) = run_sequences(Bench(), 1, 0, [0], 20, ("ce", "cs"), ROUGH)
    ratios = one.times["cs"].run_s / one.times["ce"].run_s
    assert sequences.violations_pct("cs")([one]) == 100 * float((ratios > 1.1).mean()) > 0
    assert sequences.violations_pct("ce")([one]) == 0
    worse = Sequence20(one.ratio, {"ce": one.times["cs"], "cs": one.times["ce"]})
    assert sequences.losses("cs")([one, worse]) == 18.0
    assert sequences.violations_over("cs", "ce")([one]) == sequences.violations_pct("cs")([one])


def test_orders_and_forms_are_told_apart() -> None:
    names = [one.name for one in (OURS, OURS_SAF, PLANNED, CE_SAF)]
    assert len({sequences.tag_of(name) for name in names}) == len(names)
    assert dict(OURS_SAF.keys)["order"] == dict(CE_SAF.keys)["order"] == "saf"


def test_the_table_of_requests_is_that_of_the_logs() -> None:
    logs = sorted((SLICES / "swf").glob("*.xz"))
    assert document_of(logs) == json.loads(TABLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("log", sorted(table()))
def test_requests_are_those_of_real_users(log: str) -> None:
    run_s = np.full(4000, 600.0)
    ratio = requests_s(np.random.default_rng(1), run_s, log) / run_s
    assert ratio.min() >= 1.0, "nobody is stopped by the limit when alone"
    assert np.median(ratio) == pytest.approx(table()[log]["classes"][2][10], rel=0.1)
    assert np.quantile(ratio, 0.9) > 2 * np.quantile(ratio, 0.3), "not the same factor for everybody"


@pytest.mark.parametrize("load", arrivals.LOADS)
def test_arrivals_have_the_load_that_is_asked_for(load: float) -> None:
    bench = Bench()
    work = arrivals.generate(stream(2, "arrivals"), bench, 300, load, "CTC-SP2-1996-3.1-cln")
    nodes = -(-work.processes // bench.node.cores)
    assert offered_load(work.submit_us, work.run_us, nodes, 8) == pytest.approx(load, rel=0.01)
    assert set(nodes.tolist()) == {1, 2, 3, 5}
    for name, count in zip(np.array(work.program_names)[work.program], work.processes.tolist(), strict=True):
        assert not bench.programs[name].single_node or count <= bench.node.cores
        assert not bench.programs[name].power_of_two_only or count & (count - 1) == 0


def test_the_wait_that_counts_is_the_worst_loads_mean() -> None:
    def figures(wait_s: float) -> arrivals.Figures:
        return arrivals.Figures(wait_s, wait_s, wait_s + 100, 0.0)

    members = [
        {load: {arrivals.EASY: figures(50.0), OURS.name: figures(50.0 + extra)} for load in arrivals.LOADS}
        | {0.9: {arrivals.EASY: figures(50.0), OURS.name: figures(50.0 + 3 * extra)}}
        for extra in (-10.0, 20.0)
    ]
    assert arrivals.worst_excess_s(members) == 15.0


def test_a_job_that_is_not_started_has_no_speed(problem: Problem) -> None:
    node, known = static.node_of(problem), static.profiles(problem)
    place, divided = static.decided(problem, Strategy("ce", "ce"), node, known)
    assert (place >= 0).sum() == 8
    assert not divided
    assert outcome(problem, place, divided).weighted_speedup == pytest.approx(8.0)


def test_shepherds_placement_is_judged_by_the_posters_law(problem: Problem) -> None:
    node, known = static.node_of(problem), static.profiles(problem)
    place, divided = static.decided(problem, static.SHEPHERD, node, known)
    blind, undivided = static.decided(problem, Strategy("cs", "cs"), node, known)
    assert np.bincount(blind).tolist() == [8] * 8
    assert 56 < (place >= 0).sum() <= 64, "it may leave out a job that would cost the others more than it brings"
    assert divided
    assert not undivided
    ours, theirs = (outcome(problem, one, True).weighted_speedup for one in (place, blind))
    assert ours > theirs


def test_profiles_of_the_mixes_are_the_law_alone(problem: Problem) -> None:
    tables, (first, *_) = problem.tables, static.profiles(problem)
    scale = first.at_scale(1)
    assert scale is not None
    misses, cpi0, cost = tables.mpki[:1, 7].copy(), tables.cpi0[:1], tables.cost[:1]
    load = law.solve_load(1, misses, cpi0, cost, tables.relative)
    ipc = 1.0 / (cpi0[0] + cost[0] * misses[0] * law.latency(load))
    assert scale.ipc.at(7) == pytest.approx(ipc / tables.alone[0], rel=1e-6)
    assert scale.bandwidth_gbs.at(7) == pytest.approx(misses[0] * ipc * law.rate_of(problem.mix.freq_ghz), rel=1e-6)


def test_the_trace_is_compared_with_easy() -> None:
    easy = {"turnaround": 150.0, "longest": 40.0, "beyond": 0.0}
    one = {"turnaround": 100.0, "longest": 60.0, "beyond": 0.25}
    results = {traces._key(4096, "ce-easy", None, 0): easy, traces._key(4096, OURS, 0.9, 0): one}
    assert traces.compared(results, traces.gain_pct, 4096, OURS.name, 0.9) == [pytest.approx(50.0)]
    assert traces.compared(results, traces.longest_x, 4096, OURS.name, 0.9) == [1.5]
    assert traces.compared(results, traces.beyond_pct, 4096, OURS.name, 0.9) == [25.0]
    assert traces.compared(results, traces.gain_pct, 4096, "sns", 0.9) == []


def test_submissions_begin_at_zero_and_rise() -> None:
    work = arrivals.generate(stream(2, "arrivals"), Bench(), 50, 0.9, "KTH-SP2-1996-2.1-cln")
    assert work.submit_us[0] == 0
    assert (np.diff(work.submit_us) >= 0).all()
    assert (work.limit_us >= work.run_us).all()
    assert (work.submit_us % SECOND == 0).all()
