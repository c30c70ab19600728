"""Sequences with a given scaling ratio, mixes of two programs, labelled traces and the Trinity filter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.trace.mix import generate_sequence, is_scaling, label_with_programs, ratio_mix, scaling_ratio
from cohabit.trace.poisson import generate_poisson
from cohabit.trace.programs import catalogue
from cohabit.trace.swf import read_swf
from cohabit.trace.synthetic import synthetic_workload
from cohabit.trace.trinity import trinity_filter
from tests.breadth import examples
from tests.public_data import SLICES, whole

SNS = catalogue("sns12")
PROGRAMS, NODE = SNS.programs, SNS.machine.node
TRINITY, FULL = "lanl/LANL-Trinity-atlas-concat.swf.xz", (9471, 6661, 10295, 7485)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), low=st.sampled_from([0.0, 0.4, 0.6]))
def test_a_sequence_keeps_its_promises(seed: int, low: float) -> None:
    jobs, again = (generate_sequence(rng(seed), PROGRAMS, ratio=(low, low + 0.2), alpha=0.9) for _ in range(2))
    assert low <= scaling_ratio(jobs, PROGRAMS) <= low + 0.2
    assert len(jobs) == 20
    assert not jobs.submit_us.any()
    for column in ("program", "processes", "run_us", "limit_us"):
        assert getattr(jobs, column).tolist() == getattr(again, column).tolist()
    for code, processes, run_us, limit_us in zip(jobs.program, jobs.processes, jobs.run_us, jobs.limit_us, strict=True):
        program = PROGRAMS[jobs.program_names[code]]
        assert processes in ((16,) if program.power_of_two_only else (16, 28))
        assert run_us == round(program.exclusive_time_s(int(processes), NODE) * SECOND)
        assert 4 * run_us <= limit_us < 4 * run_us + SECOND


def test_the_scaling_ratio_by_hand() -> None:
    """BW with 16 processes for 780 s beside EP with 16 for 200 s and HC with 28 for 482.3 s."""
    names = ("BW", "EP", "HC")
    times = np.array([780.0, 200.0, 482.3]) * SECOND
    jobs = synthetic_workload(
        np.zeros(3, np.int64), times.astype(np.int64), times.astype(np.int64), np.array([16, 16, 28]), nodes=8,
        source="by hand", program=np.arange(3, dtype=np.int32), program_names=names,
    )  # fmt: skip
    assert scaling_ratio(jobs, PROGRAMS) == pytest.approx(780 * 16 / (780 * 16 + 200 * 16 + 482.3 * 28))
    assert scaling_ratio(jobs, {}, NODE) == 0.0


def test_even_draws_give_wider_ratios_than_the_paper_saw() -> None:
    drawn = rng()
    ratios = [scaling_ratio(generate_sequence(drawn, PROGRAMS, ratio=None), PROGRAMS) for _ in range(150)]
    assert min(ratios) < 0.3
    assert max(ratios) > 0.75
    assert 0.45 < float(np.mean(ratios)) < 0.58


def test_mixes_of_two_programs() -> None:
    for ratio, expected in ((0.0, 0), (0.35, 10), (0.5, 15), (1.0, 30)):
        jobs = ratio_mix(rng(), PROGRAMS, ratio)
        of_bw = [jobs.program_names[code] == "BW" for code in jobs.program]
        assert sum(of_bw) == expected
        assert set(jobs.processes.tolist()) == {28}
        assert set((jobs.run_us[np.array(of_bw)] / SECOND).round().tolist()) <= {1190.0}
    first, second = (ratio_mix(rng(seed), PROGRAMS, 0.5).program.tolist() for seed in (1, 2))
    assert first != second


def test_labelled_traces() -> None:
    trace = generate_poisson(rng(), 20_000, 512)
    for ratio in (0.0, 0.5, 0.9, 1.0):
        jobs = label_with_programs(trace, PROGRAMS, ratio, rng(7))
        counts = np.bincount(jobs.program, minlength=12) / len(jobs)
        for name, share in zip(jobs.program_names, counts, strict=True):
            even = ratio / 5 if is_scaling(PROGRAMS[name], NODE) else (1 - ratio) / 7
            assert share == pytest.approx(even, abs=0.01)
        assert jobs.run_us is trace.run_us
        assert jobs.processes is trace.processes
    longer = label_with_programs(trace, PROGRAMS, 0.9, rng(3)).program
    shorter = label_with_programs(trace.take(np.arange(500)), PROGRAMS, 0.9, rng(3)).program
    assert longer[:500].tolist() == shorter.tolist()


def test_impossible_sequences_are_refused() -> None:
    some = {"EP": PROGRAMS["EP"]}
    bare = dict(PROGRAMS)
    for call, words in (
        (lambda: generate_sequence(rng(), {}, node=NODE), "needs programs"),
        (lambda: generate_sequence(rng(), bare), "for which machine"),
        (lambda: generate_sequence(rng(), PROGRAMS, 0), "0 jobs"),
        (lambda: generate_sequence(rng(), PROGRAMS, processes=[]), "processes"),
        (lambda: generate_sequence(rng(), PROGRAMS, processes=[28]), "power of two"),
        (lambda: generate_sequence(rng(), PROGRAMS, ratio=(0.8, 0.4)), "is impossible"),
        (lambda: generate_sequence(rng(), some, 2, ratio=(0.5, 0.6), node=NODE), "10,000 draws"),
        (lambda: generate_sequence(rng(), PROGRAMS, alpha=2.0), "alpha"),
        (lambda: ratio_mix(rng(), PROGRAMS, 1.5), "is impossible"),
        (lambda: ratio_mix(rng(), PROGRAMS, 0.5, scaling="XX"), "no program called 'XX'"),
        (lambda: label_with_programs(generate_poisson(rng(), 5, 8), some, 0.5, rng(), node=NODE), "no scaling"),
        (lambda: label_with_programs(generate_poisson(rng(), 5, 8), PROGRAMS, -1.0, rng()), "is impossible"),
        (lambda: trinity_filter(generate_poisson(rng(), 5, 8), "weight"), "by 'weight'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            call()


# ---- the Trinity filter ---------------------------------------------------------------------------------------------


def tasks(*sizes: int) -> Workload:
    times = np.full(len(sizes), 9 * SECOND)
    return synthetic_workload(
        np.arange(len(sizes)) * SECOND, times, times, np.array(sizes), nodes=9408, source="by hand"
    )


def test_resizing_by_cores_and_by_nodes() -> None:
    jobs = tasks(1, 2, 31, 32, 33, 64, 65, 100, 131_072, 131_104)
    cores, nodes = trinity_filter(jobs, "cores"), trinity_filter(jobs, "nodes")
    assert cores.workload.processes.tolist() == [1, 27, 28, 28, 56, 56, 114_688]
    assert cores.workload.job_id.tolist() == [2, 3, 4, 5, 6, 7, 9]
    assert cores.counts == {
        "read": 10, "never ran or asks for nothing": 0, "one task": 1, "neither within a node nor whole nodes": 1,
        "more than 4,096 nodes": 1, "kept": 7,
    }  # fmt: skip
    assert nodes.workload.processes.tolist() == [28, 28, 28, 56, 56, 84, 112, 114_688]
    several = trinity_filter(jobs, "nodes", multi_node=True)
    assert several.workload.processes.tolist() == [56, 56, 84, 112, 114_688]
    assert several.counts["one node"] == 3
    assert (cores.workload.max_nodes, cores.workload.max_procs) == (9408, 9408 * 28)


def test_the_real_trace() -> None:
    for path, counts in [(SLICES / TRINITY, (190, 184, 195, 189)), *((one, FULL) for one in whole(TRINITY))]:
        trace = read_swf(path)
        kept = [
            trinity_filter(trace, by, multi_node=several).counts["kept"]
            for by in ("cores", "nodes")
            for several in (False, True)
        ]
        assert tuple(kept) == counts
    jobs = trinity_filter(trace, "cores").workload
    assert jobs.processes.max() <= 4096 * NODE.cores
    assert isinstance(NODE, NodeGroup)
    assert set(jobs.submit_us.tolist()) <= set(trace.submit_us.tolist())
