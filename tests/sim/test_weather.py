"""The weather: the same for every policy, felt by sensitivity, shown by counters, told while work is left."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.comparison import policy_from
from cohabit.core.core import SchedulerCore
from cohabit.model.command import Command
from cohabit.model.errors import InputError
from cohabit.model.event import Event, TelemetryReduced
from cohabit.model.telemetry import decode
from cohabit.model.units import SECOND
from cohabit.reproduce.rush.lab import core_of, traced
from cohabit.sim.runs import TracedJob
from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import CONSTANTS, PLACES, STORAGE
from cohabit.sim.weather.counters import COLUMNS, NAMES, NodeState, Sampler
from cohabit.sim.weather.series import Noise, Series, production
from cohabit.sim.weather.weather import Weather, noise_nodes_of, weather_of
from cohabit.sim.world import World
from cohabit.trace.rush_programs import STRONG, TEMPERS, WEAK, Temper, by_name, scaled

SEED, NODES, MANY = 3, 64, 512
CALM = Temper("calm", "compute", 100.0, 0.1, 0.1, 0.0, 0.0, 0.0)
TENDER = Temper("tender", "network", 100.0, 0.1, 0.1, 1.0, 1.0, 0.0)


def weather(seed: int = SEED, *programs: Temper, **more: object) -> Weather:
    return weather_of(seed, NODES, by_name(programs or (CALM, TENDER)), **more)  # type: ignore[arg-type]


def ran(sky: Weather, jobs: list[TracedJob], core: SchedulerCore | None = None) -> tuple[World, list[Event], str]:
    """The world after its end, all it told, and a digest of everything said on both sides."""
    facts: list[Event] = []
    said = hashlib.sha256()

    def watch(now_us: int, events: list[Event], commands: list[Command]) -> None:
        facts.extend(events)
        said.update(msgspec.msgpack.encode([now_us, events, commands]))

    world = World(core or core_of(NODES), kill=False, weather=sky, observe=watch)
    world.add(jobs)
    world.run()
    return world, facts, said.hexdigest()


def jobs_of(*programs: Temper, at_s: int = 600) -> list[TracedJob]:
    return [traced(str(number), one, at_s * SECOND, 10**12) for number, one in enumerate(programs)]


def elapsed_s(world: World, name: str) -> float:
    outcome = world.outcomes[name]
    assert outcome.start_us is not None
    assert outcome.end_us is not None
    return (outcome.end_us - outcome.start_us) / SECOND


def test_a_series_is_the_same_however_far_one_looks() -> None:
    near, far = (Series(SEED, "network", CONSTANTS.network, 30) for _ in range(2))
    far.at(10 * 2880)
    assert [near.at(step) for step in range(0, 6000, 7)] == [far.at(step) for step in range(0, 6000, 7)]
    other = Series(SEED + 1, "network", CONSTANTS.network, 30)
    assert other.at(5) != near.at(5)
    assert min(near.at(step) for step in range(6000)) >= 0.0


def test_the_noise_job_holds_amounts_and_is_heavy_as_often_as_it_should() -> None:
    noise = Noise(SEED, CONSTANTS.noise, 30)
    levels = np.array([noise.at(step) for step in range(100_000)])
    heavy = float((levels == CONSTANTS.noise.strength).mean())
    assert heavy == pytest.approx(CONSTANTS.noise.heavy, abs=0.03)
    assert levels[levels < CONSTANTS.noise.strength].max() <= CONSTANTS.noise.light
    changes = int((np.diff(levels) != 0).sum())
    assert changes * CONSTANTS.noise.hold_min * 2 == pytest.approx(len(levels), rel=0.2)


def test_bad_days_are_in_the_long_time_and_hit_both() -> None:
    sky = production(SEED, 60, CONSTANTS)
    days = np.array([[sky.at(day * 2880 + step)[part] for step in range(0, 2880, 20)] for part in (0, 1)
                     for day in range(60)]).reshape(2, 60, -1).mean(axis=2)  # fmt: skip
    bad = np.flatnonzero(np.arange(60) == int(CONSTANTS.spike.begins * 60))
    for part in (0, 1):
        assert days[part, bad].mean() > 1.3 * np.median(days[part])


def test_who_does_not_depend_on_others_runs_as_alone() -> None:
    world, _, _ = ran(weather(), jobs_of(CALM, CALM))
    canary_s = CONSTANTS.canary.cost_s
    assert elapsed_s(world, "0") == pytest.approx(CALM.run_s + canary_s)
    world, _, _ = ran(weather(canaries=False), jobs_of(CALM))
    assert elapsed_s(world, "0") == pytest.approx(CALM.run_s), "no canary, nothing charged"


def test_load_slows_by_sensitivity_and_only_early() -> None:
    """By hand: a sky that stays at one load above the knee."""
    steady = msgspec.structs.replace(CONSTANTS.network, base=3.0, drift=0.0, daily=0.0, episodes_per_day=0.0)
    quiet = msgspec.structs.replace(steady, base=0.0)
    constants = msgspec.structs.replace(CONSTANTS, network=steady, filesystem=quiet)
    sky = weather(canaries=False, noise=False, telling=False, constants=constants)
    world, _, _ = ran(sky, jobs_of(TENDER))
    load = constants.pod.network_share * 3.0
    congestion = (load - constants.law.knee) / (1.0 - constants.law.knee)
    assert congestion > 0
    assert elapsed_s(world, "0") == pytest.approx(100.0 * (1.0 + congestion), abs=1e-3)


def test_running_jobs_load_the_network_for_others() -> None:
    loud = Temper("loud", "network", 1000.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    programs = (TENDER, loud)
    alone, _, _ = ran(weather(SEED, *programs, noise=False, telling=False), jobs_of(TENDER))
    beside, _, _ = ran(weather(SEED, *programs, noise=False, telling=False), jobs_of(TENDER, loud, loud, loud))
    assert elapsed_s(beside, "0") > elapsed_s(alone, "0") * 1.05


def test_the_same_seed_gives_the_same_journal_and_another_does_not() -> None:
    digests = [ran(weather(seed), jobs_of(TENDER, CALM, TENDER))[2] for seed in (SEED, SEED, SEED + 1)]
    assert digests[0] == digests[1] != digests[2]


def test_telemetry_is_told_every_minute_and_ends_with_the_work() -> None:
    world, facts, _ = ran(weather(), jobs_of(TENDER))
    windows = [decode(one.window) for one in facts if isinstance(one, TelemetryReduced)]
    ends = [one.end_us for one in windows]
    assert ends[0] == 300 * SECOND
    assert set(np.diff(ends)) == {60 * SECOND}
    last_end = world.outcomes["0"].end_us
    assert last_end is not None
    assert ends[-1] <= last_end
    assert windows[0].counters == COLUMNS
    assert len(NAMES) == 90
    assert windows[0].nodes == NODES
    assert (windows[0].lowest <= windows[0].highest).all()


def test_a_window_knows_nothing_of_what_comes_after_it() -> None:
    """The same sky up to a moment gives the same windows up to there, whatever runs later (R60)."""
    first = [one for one in ran(weather(), jobs_of(CALM, at_s=900))[1] if isinstance(one, TelemetryReduced)]
    second = [one for one in ran(weather(), jobs_of(TENDER, TENDER, at_s=900))[1] if isinstance(one, TelemetryReduced)]
    before = [one for one in first if decode(one.window).end_us <= 900 * SECOND]
    assert len(before) == 11
    assert second[: len(before)] == before


def test_counters_show_what_they_are_about_and_some_nothing() -> None:
    calm = NodeState(np.full(200, 0.1), np.zeros(200), np.full(200, 0.1), 0.0)
    busy = NodeState(np.full(200, 0.1), np.full(200, 2.0), np.full(200, 0.1), 0.0)
    means = []
    for state in (calm, busy):
        sampler = Sampler(stream(SEED, "test"), CONSTANTS.canary)
        means.append(sampler.window(0, [sampler.sample(state)] * 2, state).mean.mean(axis=0))
    quiet, loud = (dict(zip(COLUMNS, one.tolist(), strict=True)) for one in means)
    assert loud["sysclassib.port_xmit_wait"] > 20 * quiet["sysclassib.port_xmit_wait"]
    assert loud["canary.allreduce_wait_s"] == pytest.approx(3 * quiet["canary.allreduce_wait_s"], rel=0.1)
    assert loud["lustre2_client.read_bytes"] == pytest.approx(quiet["lustre2_client.read_bytes"], rel=0.3)
    assert loud["sysclassib.symbol_error"] == quiet["sysclassib.symbol_error"] == 0.0


def test_the_last_minute_tells_noise_that_has_passed_from_present_noise() -> None:
    calm, busy = (NodeState(np.full(200, 0.1), np.full(200, load), np.full(200, 0.1), 0.0) for load in (0.0, 2.0))
    found = []
    for states in ([busy] * 8 + [calm] * 2, [calm] * 8 + [busy] * 2):
        sampler = Sampler(stream(SEED, "test"), None)
        window = sampler.window(0, [sampler.sample(state) for state in states], states[-1])
        found.append(dict(zip(window.feature_names, window.of_all_nodes.tolist(), strict=True)))
    passed, present = ({stat: one[f"sysclassib.port_xmit_wait.{stat}"] for stat in ("max", "last")} for one in found)
    assert passed["max"] == pytest.approx(present["max"], rel=0.3)
    assert present["last"] > 20 * passed["last"]


def test_the_noise_job_has_its_share_of_the_nodes_on_half_of_the_leaves() -> None:
    nodes = noise_nodes_of(512)
    assert len(set(nodes.tolist())) == len(nodes) == 32
    assert len(set((nodes // CONSTANTS.pod.leaf_nodes).tolist())) == 8
    assert nodes.max() < 512


def test_what_would_happen_is_what_happens_to_a_job_alone() -> None:
    sky = weather(canaries=False, telling=False)
    world, _, _ = ran(sky, jobs_of(TENDER))
    ahead = weather(canaries=False, telling=False)
    ranges = world.outcomes["0"].nodes
    foreseen = ahead.would_take_us("0", "tender", ranges, 600 * SECOND, 100.0 * SECOND, (0.0, 0.0))
    assert elapsed_s(world, "0") == pytest.approx(foreseen / SECOND, rel=1e-6)


def test_scaled_programs() -> None:
    one = TEMPERS[0]
    assert scaled(one, 16, WEAK) is one
    small, large = scaled(one, 8, STRONG), scaled(one, 32, STRONG)
    assert small.run_s > one.run_s > large.run_s > one.run_s / 2
    assert small.network_sensitivity < one.network_sensitivity < large.network_sensitivity
    assert (large.app, large.nodes, large.name) == (one.name, 32, f"{one.name}.strong32")


def test_only_a_policy_with_a_gate_is_charged_for_canaries() -> None:
    """R51: a policy that asks no telemetry needs no benchmark before its jobs."""
    scenario = read_scenario(Path(__file__).parents[2] / "scenarios" / "noise.toml")
    world = msgspec.structs.replace(scenario.world, canaries=True)
    charged, runs = {}, {}
    for name in ("ce-easy", "rush"):
        own = msgspec.structs.replace(scenario, world=world, policy=policy_from(name, scenario.policy))
        table, _ = simulation.run(simulation.prepare(own))
        charged[name], runs[name] = table.canary_us, (table.end_us - table.start_us).mean()
    assert charged["ce-easy"] == 0 < charged["rush"]
    assert runs["ce-easy"] < runs["rush"], "without a model nothing is delayed: only the canaries make the difference"


def at_place(place: str, **more: object) -> Weather:
    noise = msgspec.structs.replace(CONSTANTS.noise, place=place, heavy=1.0)  # it is never quiet
    constants = msgspec.structs.replace(CONSTANTS, noise=noise)
    return weather_of(SEED, MANY, by_name((TENDER,)), constants=constants, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", PLACES)
def test_noise_with_a_place_slows_only_the_jobs_there_and_shows_only_there(place: str) -> None:
    sky = at_place(place)
    sky.pass_to(600 * SECOND)
    each, share = CONSTANTS.places.of(place)
    assert sky.sky.noise is not None
    hit = sky.sky.noise.hit(20, MANY, each, share)
    assert 0 < hit.sum() == share * MANY < MANY
    assert all(len(set(group)) == 1 for group in hit.reshape(-1, each).tolist())
    inside, outside = int(np.flatnonzero(hit)[0]), np.flatnonzero(~hit)
    sky.start("there", "tender", ((inside, 1), (int(outside[0]), 1)))  # one of its nodes is enough
    sky.start("elsewhere", "tender", ((int(outside[1]), 2),))
    rates, alone = sky.rates(), at_place(place, noise=False)
    alone.pass_to(600 * SECOND)
    alone.start("elsewhere", "tender", ((int(outside[1]), 2),))
    assert rates["there"] < 0.5 * rates["elsewhere"]
    assert rates["elsewhere"] == pytest.approx(alone.rates()["elsewhere"], rel=0.05)
    state = sky.node_state()
    shown = np.broadcast_to(state.slow_io, MANY) if place == STORAGE else state.congestion
    assert shown[hit].min() > shown[~hit].max() + 0.5


def test_noise_moves_with_every_amount_it_holds() -> None:
    noise = Noise(SEED, CONSTANTS.noise, 30)
    hits = [noise.hit(step, 512, 32, 0.25) for step in range(200)]
    assert all(one.sum() == 128 for one in hits)
    moved = [bool((first != then).any()) for first, then in pairwise(hits)]
    changes = [noise.at(step) != noise.at(step + 1) for step in range(199)]
    assert sum(moved) > 20
    assert all(change or not move for move, change in zip(moved, changes, strict=True))


def test_a_scenario_names_a_place_and_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    scenarios = Path(__file__).parents[2] / "scenarios"
    plain = (scenarios / "noise.toml").read_text().replace("noise_jobs.csv", str(scenarios / "noise_jobs.csv"))
    ends = set()
    for place in ("", *PLACES):
        (tmp_path / "s.toml").write_text(plain.replace("[world]", f'[world]\nnoise_place = "{place}"'))
        table, _ = simulation.run(simulation.prepare(read_scenario(tmp_path / "s.toml")))
        ends.add(int(table.end_us.sum()))
    assert len(ends) == 1 + len(PLACES)
    for wrong, words in (('noise_place = "moon"', "'moon' is unknown"), ('noise_place = "node"', "has no effect")):
        text = plain.replace("[world]", f"[world]\n{wrong}")
        text = text if "moon" in wrong else text.replace('weather = "noise"', 'weather = "calm"')
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(InputError, match=words):
            read_scenario(tmp_path / "s.toml")
