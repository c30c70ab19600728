"""Scenarios as typed data: defaults, paths, groups, grids, and names of policies."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cohabit.app.scenario.policies import build, title
from cohabit.app.scenario.reading import cluster_of, read_scenario, scenario_from
from cohabit.app.scenario.tables import PolicyConfig, Scenario
from cohabit.app.scenario.workloads import load_workload
from cohabit.app.simulate import simulation
from cohabit.app.simulate.comparison import policy_from
from cohabit.app.simulate.sweeping import grid
from cohabit.model.errors import InputError

JOBS = {"jobs": {"trace": "jobs.swf"}}
HEADER = "job_id,program,processes,submit_s,run_s,partition\n"


def test_defaults_are_the_fair_baseline() -> None:
    scenario = scenario_from(JOBS, "test")
    assert scenario.seed == 1
    assert scenario.world.kill
    assert title(build(scenario.policy).names) == "fcfs + easy"
    assert cluster_of(scenario.cluster, 7).nodes == 7


def test_plain_data_comes_back_the_same() -> None:
    window = {"begin_s": 1, "end_s": 2, "nodes": "3"}
    scenario = scenario_from(JOBS | {"cluster": {"nodes": 4, "maintenance": [window]}}, "test")
    assert msgspec.convert(msgspec.to_builtins(scenario), Scenario) == scenario


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    path = folder / "s.toml"
    path.write_text('[jobs]\ntrace = "../jobs.swf"\n[policy]\norder = "mine.py"\n')
    scenario = read_scenario(path)
    assert scenario.jobs.trace == str(tmp_path / "jobs.swf")
    assert scenario.policy.order == str(folder / "mine.py")


def test_a_backfill_order_is_relative_to_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[jobs]\ntrace = "jobs.swf"\n[policy]\nbackfill_order = "mine.py"\n')
    assert read_scenario(path).policy.backfill_order == str(tmp_path / "mine.py")


def test_what_a_policy_learned_is_relative_to_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[jobs]\ntrace = "jobs.swf"\n[policy]\ndegradation = "../who.csv"\nmodel = "a.model"\n')
    policy = read_scenario(path).policy
    assert (policy.degradation, policy.model) == (str(tmp_path.parent / "who.csv"), str(tmp_path / "a.model"))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"name": "pair-greedy", "moves": 2}, ["policy.moves has no effect with placement 'pair'"]),
        ({"name": "ce-easy", "threshold_pct": 50.0}, ["policy.threshold_pct has no effect with placement 'exclusive'"]),
        ({"name": "fifo-shared", "window": 9}, ["policy.window has no effect with pairing 'consecutive'"]),
        ({"name": "pair-saving", "threshold_pct": 50.0}, ["policy.threshold_pct has no effect with pairing 'saving'"]),
        ({"name": "pair-greedy", "threshold_pct": 50.0, "window": 9, "refill": True}, []),
        ({"name": "sns", "alpha": 0.8, "scales": [1, 2], "learn": False}, []),
        ({"name": "shepherd", "moves": 2}, []),
    ],
)
def test_keys_without_effect_are_named(policy: dict[str, object], expected: list[str], tmp_path: Path) -> None:
    notes = pair_scenario(tmp_path, policy).notes
    assert [text for text in notes if "no effect" in text] == expected


def pair_scenario(tmp_path: Path, policy: dict[str, object], sharing: str | None = None) -> simulation.Prepared:
    """Two jobs of two programs, on a node for both."""
    (tmp_path / "jobs.csv").write_text(HEADER + "1,left,4,0,10,\n2,right,4,0,10,\n")
    cluster = {"nodes": 1, "cores": 4} | ({"sharing": sharing} if sharing else {})
    data = {"cluster": cluster, "jobs": {"file": str(tmp_path / "jobs.csv")}, "policy": policy}
    return simulation.prepare(scenario_from(data, "test"))


def test_the_switch_back_to_whole_nodes_complains_of_nothing(tmp_path: Path) -> None:
    policy = {"name": "pair-greedy", "threshold_pct": 50.0}
    assert pair_scenario(tmp_path, policy, "exclusive").notes == ()


def test_a_matrix_of_other_programs_is_refused_and_one_of_some_is_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "others.csv").write_text(",x,y\nx,0,1\ny,1,0\n")
    (tmp_path / "some.csv").write_text(",left,y\nleft,0,1\ny,1,0\n")
    with pytest.raises(InputError, match="has none of their programs: all jobs would run alone"):
        pair_scenario(tmp_path, {"name": "pair-greedy", "degradation": str(tmp_path / "others.csv")})
    known = pair_scenario(tmp_path, {"name": "pair-greedy", "degradation": str(tmp_path / "some.csv")})
    assert known.notes == ("policy.degradation does not cover right: run alone",)
    unheeded = pair_scenario(tmp_path, {"name": "fifo-shared", "degradation": str(tmp_path / "others.csv")})
    assert unheeded.notes == ("policy.degradation has no effect with pairing 'consecutive'",)


@pytest.mark.parametrize(("text", "first", "count"), [("0-15", 0, 16), ("7", 7, 1), ("3-3", 3, 1)])
def test_ranges_of_nodes_under_maintenance(text: str, first: int, count: int) -> None:
    window = {"begin_s": 0.5, "end_s": 2, "nodes": text}
    scenario = scenario_from(JOBS | {"cluster": {"nodes": 20, "maintenance": [window]}}, "test")
    (found,) = cluster_of(scenario.cluster, 20).windows
    assert (found.first, found.count, found.begin_us, found.end_us) == (first, count, 500_000, 2_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ce", "age + first-fit"), ("ce-easy", "fcfs + easy"), ("sjf", "sjf + easy"), ("none", "fcfs + none"),
        ("wfp+conservative", "wfp + conservative"), ("conservative+wfp", "wfp + conservative"),
        ("saf+3", "saf + depth 3"), ("f1 + first-fit", "f1 + first-fit"),
    ],
)  # fmt: skip
def test_policies_by_their_parts(text: str, expected: str) -> None:
    assert title(build(policy_from(text, PolicyConfig())).names) == expected


def test_a_grid_is_the_product_of_its_axes() -> None:
    scenario = scenario_from({"cluster": {"nodes": 4}, "jobs": {"generator": "lublin"}}, "test")
    cells = grid(scenario, ["order=fcfs,sjf", "load=0.5,1", "kill=true,false"])
    assert len(cells) == 8
    assert cells[5]["settings"] == {"policy.order": "sjf", "jobs.load": 0.5, "world.kill": False}
    assert cells[5]["scenario"]["world"]["kill"] is False


def test_a_cell_runs_what_its_settings_say() -> None:
    scenario = scenario_from({"cluster": {"nodes": 8}, "jobs": {"generator": "lublin", "jobs": 20}}, "test")
    for cell in grid(scenario, ["seed=1,2"]):
        alone = scenario_from(cell["scenario"], "cell")
        assert alone.seed == cell["settings"]["seed"]
        assert len(load_workload(alone)) == 20


def fates(tmp_path: Path, groups: list[dict[str, object]], rows: str) -> list[str]:
    from cohabit.model.records import STATUS_NAMES

    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + rows)
    scenario = scenario_from({"cluster": {"group": groups}, "jobs": {"file": str(path)}}, "test")
    table, _ = simulation.run(simulation.prepare(scenario))
    return [STATUS_NAMES[code] for code in table.status]


GROUPS: list[dict[str, object]] = [
    {"nodes": 2, "cores": 4, "partitions": ["small"]}, {"nodes": 4, "cores": 16, "partitions": ["large"]},
]  # fmt: skip


def test_a_partition_too_small_for_a_job(tmp_path: Path) -> None:
    assert fates(tmp_path, GROUPS, "a,x,8,0,5,small\nb,x,12,0,5,small\n") == ["done", "rejected"]


def test_a_job_that_only_the_large_nodes_hold(tmp_path: Path) -> None:
    """64 processes are 16 of the small nodes, more than there are of any kind, but 4 of the large ones."""
    assert fates(tmp_path, GROUPS, "a,x,8,0,5,small\nb,x,64,0,5,large\n") == ["done", "done"]


def test_generators_know_the_size_of_groups() -> None:
    scenario = scenario_from({"cluster": {"group": [{"nodes": 8}]}, "jobs": {"generator": "lublin"}}, "test")
    assert len(load_workload(scenario)) == 1000


def test_a_partition_nobody_has(tmp_path: Path) -> None:
    assert fates(tmp_path, GROUPS, "a,x,4,0,5,small\nb,x,4,0,5,lagre\n") == ["done", "rejected"]
