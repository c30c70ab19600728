"""The scheme agree on shared nodes: cores are kept for the common start, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.model.command import Command
from cohabit.model.event import Event

SCENARIO = """
[[domain]]
name = "alpha"
scheme = "agree"
jobs = "alpha.csv"
policy = "{policy}"
cluster = {{ nodes = 2, cores = 4 }}
[[domain]]
name = "beta"
scheme = "agree"
jobs = "beta.csv"
policy = "{policy}"
cluster = {{ nodes = 1, cores = 4 }}
"""
HEAD = "job_id,program,processes,submit_s,run_s,limit_s,group"
# a1 is agreed on for 310 s, when x has ended at the latest, with three cores of each node of alpha. "short" ends before
# that, "beside" needs one core, and "wide" would need all cores of a node.
ALPHA = "a1,,6,10,100,200,one\nwide,,4,20,400,410,\nbeside,,1,30,400,410,\nshort,,6,40,200,210,\n"
BETA = "x,,4,0,300,310,\nb1,,4,15,100,200,one\n"


def _starts(folder: Path, policy: str, trouble: str = "") -> dict[str, float]:
    """When jobs start; the state of both domains is checked after every step."""

    def check(now_us: int, _events: list[Event], _commands: list[Command], core: SchedulerCore) -> None:
        invariants.check(core.state, now_us)

    (folder / "alpha.csv").write_text(f"{HEAD}\n{ALPHA}")
    (folder / "beta.csv").write_text(f"{HEAD}\n{BETA}")
    (folder / "scene.toml").write_text(SCENARIO.format(policy=policy) + trouble)
    run = run_domains(
        prepare_domains(read_scenario(folder / "scene.toml")), observe=dict.fromkeys(("alpha", "beta"), check)
    )
    return {
        str(name): float(start_us / 1e6)
        for table in run.tables.values()
        for name, start_us in zip(table.workload.job_id.tolist(), table.start_us.tolist(), strict=True)
    }


def test_cores_are_kept_for_the_common_start_and_others_run_beside_it(tmp_path: Path) -> None:
    starts = _starts(tmp_path, "cs")
    common = 300.0
    assert (starts["a1"], starts["b1"]) == (common, common)
    assert (starts["beside"], starts["short"]) == (30.0, 40.0)
    assert starts["wide"] == pytest.approx(starts["a1"] + 100.0, abs=0.1)


@pytest.mark.parametrize("policy", ["sns", "shepherd", "cohabit", "pair-greedy"])
def test_every_policy_that_shares_nodes_keeps_what_was_agreed_on(tmp_path: Path, policy: str) -> None:
    starts = _starts(tmp_path, policy)
    common = 300.0
    assert (starts["a1"], starts["b1"]) == (common, common)
    assert min(starts.values()) >= 0.0, "all jobs run"


def test_a_job_that_is_cancelled_leaves_no_promise(tmp_path: Path) -> None:
    cancel = 'what = "cancel"\nat_s = 100.0\njob = "b1"\n'
    starts = _starts(tmp_path, "cs", trouble=f"[[domain.trouble]]\n{cancel}")
    assert starts["a1"] == 240.0, "it has no mates left, and short runs until then"
    assert starts["wide"] == 340.0
