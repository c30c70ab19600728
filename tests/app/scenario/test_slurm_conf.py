"""`cohabit import slurm-conf`: a site's slurm.conf becomes a scenario that simulates; what it leaves out is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.scenario.slurm_conf import read_conf, scenario_of, written
from cohabit.app.simulate import simulation
from cohabit.cli.import_log import import_log
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from tests.support.slurm_cluster import CONF, ONE_PARTITION

SITE = """
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=10,bf_window=2880,bf_max_job_test=200
PriorityType=priority/multifactor   # the rest is in another file
PriorityWeightAge=1000
PriorityWeightQOS=2000
PriorityDecayHalfLife=14-0
PriorityMaxAge=1-12
Include nodes.conf
"""
NODES = """
NodeName=DEFAULT RealMemory=128000
NodeName=n[0-7] CPUs=28 Sockets=2 CoresPerSocket=14
nodename=big0 Sockets=2 CoresPerSocket=32 \\
  ThreadsPerCore=2 CoreSpecCount=1 RealMemory=1024000
PartitionName=batch Nodes=n[0-7] Default=YES MaxTime=2-0
PartitionName=big Nodes=big0 QOS=big PriorityTier=10
"""
QOS = "Name|Priority|GrpTRES|MaxTRESPU|MaxJobsPU\nnormal|0|||\nhigh|50|||3\nbig|10||cpu=64,mem=1G|\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "slurm.conf").write_text(SITE)
    (tmp_path / "nodes.conf").write_text(NODES)
    return tmp_path / "slurm.conf"


def test_a_site_becomes_a_scenario(conf: Path) -> None:
    tables, left_out = scenario_of(read_conf(conf), "jobs.csv", QOS)
    groups = tables["cluster"]["group"]
    assert [(one["nodes"], one["cores"], one["memory_gb"], one["partitions"]) for one in groups] == [
        (8, 28, 125.0, ["batch"]), (1, 126, 1000.0, ["big"]),
    ]  # fmt: skip
    policy = tables["policy"]
    assert (policy["bf_interval_s"], policy["bf_window_s"], policy["bf_max_job_test"]) == (10.0, 172800.0, 200)
    assert (policy["order"], policy["placement"], policy["fair_share_half_life_h"]) == ("multifactor", "share", 336.0)
    weights = policy["order_options"]
    assert (weights["age_weight"], weights["size_weight"], weights["max_age_h"]) == (1000.0, 0.0, 36.0)
    assert tables["qos"] == {"normal": 0, "high": 100, "big": 20}
    assert [(one["name"], one["per"], one.get("jobs"), one.get("cores")) for one in tables["limit"]] == [
        ("QOS high", "user", 3, None), ("QOS big", "user", None, 64), ("partition big", "user", None, 64),
    ]  # fmt: skip
    assert left_out == ["priority of partitions (PriorityTier, PriorityWeightPartition)"]


def test_the_scenario_is_simulated_with_its_limits_and_priorities(conf: Path, tmp_path: Path) -> None:
    jobs = [f"{n},x,28,0,100,101,ann,batch,high" for n in range(5)]
    head = "job_id,program,processes,submit_s,run_s,limit_s,user,partition,qos\n"
    (tmp_path / "jobs.csv").write_text(head + "\n".join(jobs) + "\n")
    (tmp_path / "qos.txt").write_text(QOS)
    import_log("slurm-conf", conf, tmp_path / "site.toml", jobs=Path("jobs.csv"), qos=tmp_path / "qos.txt")
    scenario = read_scenario(tmp_path / "site.toml")
    table, _ = simulation.run(simulation.prepare(scenario))
    assert (table.start_us // SECOND).tolist() == [0, 0, 0, 100, 100], "three jobs of a user at once, by QOS high"


def test_priority_of_qos_orders_the_queue(conf: Path, tmp_path: Path) -> None:
    rows = ["0,x,224,0,100,101,ann,batch,normal", "1,x,224,1,100,101,ann,batch,normal", "2,x,224,2,9,10,ben,batch,big"]
    head = "job_id,program,processes,submit_s,run_s,limit_s,user,partition,qos\n"
    (tmp_path / "jobs.csv").write_text(head + "\n".join(rows) + "\n")
    tables, left_out = scenario_of(read_conf(conf), "jobs.csv", "Name|Priority\nbig|10\n")
    (tmp_path / "site.toml").write_text(written(tables, left_out, "slurm.conf"))
    table, _ = simulation.run(simulation.prepare(read_scenario(tmp_path / "site.toml")))
    assert (table.start_us // SECOND).tolist() == [0, 109, 100]


def test_the_conf_of_a_slurm_that_runs_in_our_tests(tmp_path: Path) -> None:
    shape = {"cores": 28, "shape": "Sockets=2 CoresPerSocket=14", "node": "", "last": 7, "first": 1, "final": 8}
    where = {"name": "x", "host": "h", "port": 1, "folder": "/f", "more": "", "partitions": ONE_PARTITION}
    text = CONF.format(scheduler=",bf_interval=2", **shape, **where)
    (tmp_path / "slurm.conf").write_text(text)
    tables, left_out = scenario_of(read_conf(tmp_path / "slurm.conf"), "jobs.csv")
    assert (tables["cluster"]["group"][0]["nodes"], tables["policy"]["bf_interval_s"]) == (8, 2.0)
    assert left_out == ["PriorityType is not set: first come, first served (`scontrol show config` tells)"]


@pytest.mark.parametrize(
    ("old", "new", "placement", "backfill"),
    [
        ("select/cons_tres", "select/linear", "exclusive", 10),
        ("CR_Core_Memory", "CR_Core", "share", 10),
        ("SchedulerParameters=", "SchedulerType=sched/builtin\nSchedulerParameters=", "share", "none"),
    ],
)
def test_how_nodes_are_given_out(conf: Path, old: str, new: str, placement: str, backfill: object) -> None:
    conf.write_text(SITE.replace(old, new))
    policy = scenario_of(read_conf(conf), "jobs.csv")[0]["policy"]
    assert (policy["placement"], policy["backfill"]) == (placement, backfill)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ClusterName=x\n", "names no nodes"),
        ("NodeName=n0\n", "names no partitions"),
        ("NodeName=n0 CPUs=many\nPartitionName=a Nodes=ALL\n", "cpus = 'many' is not a number"),
        ("NodeName=n0\nPartitionName=a Nodes=n1\n", "n1 is not a node of this file"),
        ("garbage\n", "is not KEY=VALUE"),
        ("Include slurm.conf\n", "includes itself"),
        ("Include gone.conf\n", "cannot be read"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "slurm.conf").write_text(text)
    with pytest.raises(InputError, match=words):
        scenario_of(read_conf(tmp_path / "slurm.conf"), "jobs.csv")


def test_limits_without_names_are_refused(conf: Path) -> None:
    with pytest.raises(InputError, match="has no column Name"):
        scenario_of(read_conf(conf), "jobs.csv", "x|y\n")
