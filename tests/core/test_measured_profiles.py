"""What the agent measures is what policies ask for: one name from a sensor to a data set, a profile and a pair."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.agent.launch.process import Request
from cohabit.agent.observing import observe
from cohabit.agent.sensors.catalogue import usable
from cohabit.agent.sensors.imported import read_counters
from cohabit.app.measure.data import Alone, Together, write_data
from cohabit.app.measure.programs import Plan, Program
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.counters import COUNTERS, PAPER
from cohabit.model.profile import Profile, ScaleProfile, Tenant
from cohabit.policy.degradation import CPU_USAGE, PredictedPairs, busy_cores
from cohabit.policy.placement.pair import MISSES
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import ELASTIC_NET, GRIDS, fit_kind
from cohabit.reproduce.colocation.counters import COLUMNS
from cohabit.trace.corun_data import read_coruns
from tests.core.shared_story import Story
from tests.support.builders import submitted

NODE = NodeGroup(1, 4)
CODE = {
    "busy": "import time\nwhile time.process_time() < 0.6: pass",
    "idle": "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: time.sleep(0.05)",
}


def profile_of(name: str, alone: Alone) -> Profile:
    """As an agent stores it: all columns of the runs alone."""
    counters = {
        f"{counter}_{stat}": value for counter, one in alone.with_time().items() for stat, value in one.columns()
    }
    return Profile(name, 1, (ScaleProfile(1, alone.time_s, counters=counters),))


def tenant(profile: Profile) -> Tenant:
    return Tenant(profile.program, 1, 1, 0, 0.0, 1.0, profile)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Alone]:
    """Two real programs, watched through procfs."""
    folder = tmp_path_factory.mktemp("sensors")
    sources = usable(["procfs"])
    found = {}
    for name, code in CODE.items():
        ended, readings = observe(Request((sys.executable, "-I", "-S", "-c", code)), sources, folder, 60.0, 0.1)
        assert ended.status == 0
        found[name] = Alone((ended.run_s,), readings)
    return found


@pytest.mark.slow
def test_a_model_trained_on_measured_pairs_knows_measured_profiles(measured: dict[str, Alone], tmp_path: Path) -> None:
    out = tmp_path / "pairs.csv"
    plan = Plan([Program(name, [sys.executable]) for name in measured], "shared")
    slowed = {("busy", "busy"): 2.0, ("busy", "idle"): 1.1, ("idle", "busy"): 1.05, ("idle", "idle"): 1.0}
    times = {pair: Together((factor * measured[pair[0]].time_s,), 0) for pair, factor in slowed.items()}
    write_data(out, plan, measured, times)
    data = read_coruns(out)
    model = DegradationModel(
        ELASTIC_NET, data.schema, fit_kind(ELASTIC_NET, data, GRIDS[ELASTIC_NET][0], 1, 5).flat
    )  # fmt: skip
    pairs, profiles = PredictedPairs(model), [profile_of(name, alone) for name, alone in measured.items()]
    assert not any(pairs.lacks(one.program, one) for one in profiles)
    found = pairs.between([tenant(one) for one in profiles], NODE)
    np.testing.assert_allclose(found.ravel(), model.estimate(data.primary, data.beside), rtol=1e-5, atol=1e-5)
    lacking = profiles[0].with_scale(ScaleProfile(1, 1.0))
    assert "cannot judge busy: its profile lacks " in pairs.lacks("busy", lacking)


def test_cores_kept_busy_are_read_as_the_sensor_means_them(measured: dict[str, Alone]) -> None:
    busy, idle = (tenant(profile_of(name, measured[name])) for name in CODE)
    usage = measured["busy"].readings["cpu_usage"].mean
    assert busy_cores(busy) == pytest.approx(min(usage, 1.0))
    assert busy_cores(idle) < busy_cores(busy)
    two_cores = busy._replace(cores=4, load=2.0)
    assert busy_cores(two_cores) == pytest.approx(2.0 * usage), "twice the processes keep twice the cores busy"


def test_distributed_intensity_goes_by_counted_misses(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    misses = {"a": 10, "b": 40, "c": 20, "d": 30}
    lines = [f"{name},1.0,1000,{count}" for name, count in misses.items()]
    path.write_text("\n".join(["program,seconds,instructions,cache_misses", *lines, ""]))
    known = tuple(profile_of(name, Alone((1.0,), readings)) for name, readings in read_counters(path).items())
    cluster = Cluster((replace(NODE, count=2),), "shared", oversubscribe=True)
    core = SchedulerCore(cluster, build(PolicyConfig(name="distributed-intensity")), profiles=known)
    starts = Story(core).starts(0, *(submitted(name, program=name, processes=4) for name in misses))
    assert starts["a"].nodes == starts["b"].nodes != starts["c"].nodes == starts["d"].nodes


def test_there_is_one_spelling() -> None:
    assert [column.rpartition("_")[0] for column in COLUMNS[::4]] == [counter.name for counter in PAPER]
    for column in (*COLUMNS, CPU_USAGE, MISSES):
        counter, _, statistic = column.rpartition("_")
        assert counter in COUNTERS
        assert statistic in ("mean", "min", "max", "std")
