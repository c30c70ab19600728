"""Intelligent Colocation: the frozen catalogue, the counters, the server against the law, and what must not matter."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from cohabit.model.counters import PAPER
from cohabit.policy.degradation import KnownPairs, PredictedPairs
from cohabit.reproduce.colocation import lab, models, queues
from cohabit.reproduce.colocation.counters import COLUMNS, measured, rates
from cohabit.reproduce.colocation.lab import FREE, HIDDEN, RUINOUS, Bench, Policy, measure, profiles, run_queue
from cohabit.reproduce.colocation.queues import HIGH, LEVELS, LOW, MEDIUM, allowed, levelled
from cohabit.sim.streams import stream
from cohabit.trace.colocation_programs import (
    BLIND,
    Vector,
    catalogue_vectors,
    document,
    drawn_vectors,
    machine,
    program_of,
)

SEED = 5
PAIRED = ("pair-greedy", "pair-optimal", "pair-saving")


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def normalised(bench: Bench, places: np.ndarray, bundle: str) -> float:
    told = profiles(bench, measure(bench, SEED))
    oracle = KnownPairs(bench.names, bench.degradations) if bundle in PAIRED else None
    own = run_queue(bench, places, Policy(bundle, oracle), told)
    return own.makespan_s / run_queue(bench, places, Policy("fifo"), told).makespan_s


def test_the_catalogue_is_what_its_priors_and_seed_give() -> None:
    stated = document()
    again = drawn_vectors(stream(stated.calibration["programs_seed"], "colocation programs"), stated.priors)
    assert catalogue_vectors() == again


def test_suites_and_patterns_are_the_papers(bench: Bench) -> None:
    assert len(bench.names) == len(set(bench.names)) == 32
    assert int(bench.blind.sum()) == 5
    for priors in (document().priors, *document().other_priors.values()):
        assert sum(priors["suites"].values()) == sum(one["count"] for one in priors["patterns"].values()) == 32
        assert priors["suites"][BLIND] == 5
        of_patterns = [one["quantities"] for one in priors["patterns"].values()]
        for quantities in (priors["quantities"], *of_patterns):
            for prior in quantities.values():
                assert sum(share for share, _, _ in prior["ranges"]) == pytest.approx(1.0)


def test_hidden_programs_keep_to_the_priors_and_differ() -> None:
    ranges = document().priors["quantities"]["cpu_fraction"]["ranges"]
    one, other = (Bench(HIDDEN, SEED, number).vectors for number in (0, 1))
    assert one != other
    for vector in (*one, *other):
        assert any(low - 1e-3 <= vector.cpu_fraction <= high + 1e-3 for _, low, high in ranges)
    busy = sum(vector.cpu_fraction >= ranges[0][1] for vector in one)
    assert busy in (20, 21), "63 % of 32, whatever the draw: every part of the prior is drawn from once"


def test_programs_are_physical() -> None:
    server = machine()
    for vector in catalogue_vectors():
        program = program_of(vector, server)
        assert list(program.ipc.values) == sorted(program.ipc.values)
        assert program.ipc.values[-1] == 1.0
        assert 0.0 <= program.mu < 1.0
        assert max(program.bandwidth_gbs.values) <= server.node.bandwidth_gbs[-1][1]


def test_counters_are_the_papers_and_consistent() -> None:
    server, vector = machine(), catalogue_vectors()[0]
    found = rates(vector, server)
    assert list(found) == [counter.name for counter in PAPER]
    assert len(COLUMNS) == 39 * 4
    assert found["ipc"] == pytest.approx(found["instructions"] / found["cycles"])
    assert found["miss_ratio"] == pytest.approx(found["cache_misses"] / found["cache_references"])
    exact = measured(vector, server, stream(SEED, "x"), noise=0.0)
    assert exact["cycles_mean"] == found["cycles"]
    assert set(exact) == set(COLUMNS)
    for counter in found:
        assert exact[f"{counter}_min"] <= exact[f"{counter}_mean"] <= exact[f"{counter}_max"]


def test_counters_do_not_show_what_a_counter_cannot() -> None:
    """How a working set that fits is reused decides what less cache costs, and leaves no trace in a solo run."""
    server = machine()
    fits = msgspec.structs.replace(catalogue_vectors()[0], footprint_mb=15.0)
    other = msgspec.structs.replace(fits, reuse=fits.reuse / 2)
    assert rates(fits, server) == rates(other, server)
    assert program_of(fits, server).ipc != program_of(other, server).ipc


def test_noise_is_the_papers(bench: Bench) -> None:
    assert all(0.002 <= vector.noise <= 0.045 for vector in bench.vectors)
    known = measure(bench, SEED)
    assert np.abs(known.times_s / bench.times_s - 1.0).max() < 0.2
    assert known.degradations == pytest.approx(bench.degradations, rel=0.5, abs=20.0)
    assert not np.array_equal(known.degradations, measure(bench, SEED + 1).degradations)


@pytest.mark.parametrize("pair", [(0, 1), (3, 30), (7, 7), (12, 25)])
def test_degradations_are_what_the_scheduler_meets(bench: Bench, pair: tuple[int, int]) -> None:
    """Two jobs beside each other: the one that ends first has slowed by exactly its entry of the matrix."""
    ran = run_queue(bench, np.array(pair), Policy("fifo-shared"), profiles(bench, measure(bench, SEED)))
    expected = [bench.times_s[i] * (1 + bench.degradations[i, j] / 100) for i, j in (pair, pair[::-1])]
    assert float(ran.turnaround_s.min()) == pytest.approx(min(expected), rel=1e-6)


def test_training_never_sees_the_blind_suite(bench: Bench) -> None:
    learn, blind = models.data_of(bench, measure(bench, SEED))
    unseen = {name for name, new in zip(bench.names, bench.blind, strict=True) if new}
    assert len(learn) == 27 * 27
    assert len(blind) == 5 * 32
    assert not unseen & {*learn.app, *learn.other}
    assert set(blind.app) == unseen


def test_levels_of_queues(bench: Bench) -> None:
    weight = np.maximum(bench.degradations, bench.degradations.T)
    limits = {LOW: (0.0, 4.5), MEDIUM: (4.5, 100.0), HIGH: (100.0, np.inf)}
    for level in LEVELS:
        places = levelled(bench.degradations, level, 50, stream(SEED, level))
        assert places is not None
        low, high = limits[level]
        between = weight[places[:-1], places[1:]]
        assert ((low <= between) & (between <= high)).all()
    assert np.array_equal(sum(allowed(bench.degradations, level) for level in LEVELS), np.ones((32, 32)))
    assert levelled(np.full((3, 3), 500.0), LOW, 5, stream(SEED, "none")) is None


@pytest.mark.parametrize("bundle", PAIRED)
def test_names_do_not_matter(bench: Bench, bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = stream(SEED, "renamed").integers(0, 32, 12)
    plain = normalised(bench, places, bundle)
    new = tuple(msgspec.structs.replace(one, name=f"x{99 - at}") for at, one in enumerate(catalogue_vectors()))
    monkeypatch.setattr(lab, "catalogue_vectors", lambda: new)
    assert normalised(Bench(), places, bundle) == plain


@pytest.mark.parametrize("bundle", [*PAIRED, "fifo-shared"])
def test_a_clock_ten_times_slower_changes_nothing(bench: Bench, bundle: str) -> None:
    places = stream(SEED, "slow").integers(0, 32, 12)
    slow = Bench(factors=(("solo_time_s", 10.0),))
    assert normalised(slow, places, bundle) == pytest.approx(normalised(bench, places, bundle), rel=1e-6)


@pytest.mark.parametrize("bundle", PAIRED)
def test_without_contention_all_are_paired_and_with_endless_contention_none(bundle: str) -> None:
    places = stream(SEED, "worlds").integers(0, 32, 12)
    for world, pairs in ((FREE, 6), (RUINOUS, 0)):
        bench = Bench(world=world)
        oracle = KnownPairs(bench.names, bench.degradations)
        told = profiles(bench, measure(bench, SEED))
        assert run_queue(bench, places, Policy(bundle, oracle), told).together == pairs
    assert normalised(Bench(world=RUINOUS), places, bundle) == 1.0


def test_threshold_0_is_fifo(bench: Bench) -> None:
    learn, _ = models.data_of(bench, measure(bench, SEED))
    model = PredictedPairs(models.trained(learn, "elastic-net", SEED, 5, False))
    told = profiles(bench, measure(bench, SEED))
    places = stream(SEED, "threshold").integers(0, 32, 12)
    alone = run_queue(bench, places, Policy("fifo"), told)
    refused = run_queue(bench, places, Policy("pair-optimal", model, 0.0), told)
    np.testing.assert_array_equal(refused.turnaround_s, alone.turnaround_s)
    shared = run_queue(bench, places, Policy("pair-optimal", model), told)
    assert shared.together > 0, "with the usual threshold the same model does pair some"


@pytest.mark.parametrize("name", ["memory_cycles", "stream", "refs_per_ki", "footprint_mb", "overlap", "cpu_fraction"])
def test_factors_change_the_world(bench: Bench, name: str) -> None:
    varied = Bench(factors=((name, 0.5),))
    assert not np.array_equal(varied.degradations, bench.degradations)
    assert np.array_equal(Bench(factors=((name, 1.0),)).degradations, bench.degradations)
    assert all(vector.cpu_fraction <= 1.0 for vector in Bench(factors=(("cpu_fraction", 1.5),)).vectors)


def test_vectors_say_what_only_counters_show() -> None:
    """What the document of Vector promises: fields after write_back do not reach the world."""
    server, vector = machine(), catalogue_vectors()[0]
    fields = Vector.__struct_fields__
    for name in fields[fields.index("write_back") + 1 :]:
        changed = msgspec.structs.replace(vector, **{name: 2.0 * getattr(vector, name)})
        assert program_of(changed, server) == program_of(vector, server)


def test_policies_of_a_set_have_what_they_need() -> None:
    levels = tuple((level, 1, ("fifo", "forest optimal")) for level in ("random", LOW))
    work = queues.Work(Bench(), SEED, 0, levels, 6, 5, False, blind=True)
    found = queues.run_set(work)
    assert found["random"][0]["fifo"]["pct"] == 0.0
    assert len(found[LOW]) == 1
    assert found["blind mlp"]["r2"] is not None
