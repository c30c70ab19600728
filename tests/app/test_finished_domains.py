"""A finished run of several domains, loaded again from its folder and explained job by job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.app.simulate.coupling import run_domains
from cohabit.app.simulate.explaining import explain_job
from cohabit.app.simulate.finished import load_run
from cohabit.app.view import jobs as view_jobs
from cohabit.app.view.run import FinishedRun
from cohabit.model.errors import InputError
from tests.replay.coupled_runs import scenario, tables, written

HEAD = "job_id,processes,submit_s,run_s,limit_s,mate,program\n"


def pair(folder: Path, on_big: str, on_small: str, schemes: tuple[str, str] = ("hold", "hold"), **changes: Any) -> Path:
    """Run two domains of ten nodes, big and small, with these jobs."""
    for name, rows in (("big", on_big), ("small", on_small)):
        (folder / f"{name}.csv").write_text(HEAD + rows.replace("\n", ",\n"))
    domains = [
        {"name": name, "cluster": 10, "jobs": str(folder / f"{name}.csv"), "scheme": scheme} | changes.pop(name, {})
        for name, scheme in zip(("big", "small"), schemes, strict=True)
    ]
    written(folder, {"domain": domains} | changes)
    return folder


# ---- loaded again ---------------------------------------------------------------------------------------------------

PAIRINGS: dict[str, dict[str, Any]] = {
    "column": {},
    "vicinity": {"coupling": {"pairing": "vicinity", "vicinity_s": 30.0}},
    "proportion": {"coupling": {"pairing": "proportion", "proportion": 0.25}},
    "none": {"coupling": {"pairing": "none"}},
}


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_it_has_the_same_jobs_mates_and_results(pairing: str, tmp_path: Path) -> None:
    prepared, run = written(tmp_path, scenario(tables(tmp_path), ("hold", "yield"), **PAIRINGS[pairing]))
    found = load_run(tmp_path)
    assert found.coupled is not None
    assert {name: one.groups for name, one in found.domains.items()} == prepared.groups
    for name, table in run.tables.items():
        own = found.domains[name].table
        assert own.workload.job_id.tolist() == table.workload.job_id.tolist()
        for column in ("start_us", "end_us", "nodes", "status"):
            assert np.array_equal(getattr(own, column), getattr(table, column))
        assert own.policy == table.policy
        assert own.cluster_nodes == 8
        assert own.node_ranges is not None
        assert table.node_ranges is not None
        for column in ("offsets", "first", "count"):
            assert np.array_equal(getattr(own.node_ranges, column), getattr(table.node_ranges, column))


def test_what_only_one_domain_has_is_kept(tmp_path: Path) -> None:
    """Names, dependencies, memory and partitions of one domain; the other has numbers, and a column of its own."""
    big = tmp_path / "big.csv"
    big.write_text(
        "job_id,program,processes,submit_s,run_s,limit_s,mate,after,partition,memory_mb\n"
        "first,,2,0,50,60,,,fat,30000\nsecond,,2,1,40,60,small:2,first,thin,\nthird,,6,2,30,60,,,,\n"
    )
    small = tmp_path / "small.csv"
    small.write_text(
        "job_id,program,processes,submit_s,run_s,limit_s,skip_threshold\n1,,6,0,30,40,2\n2,,4,3,20,40,\n3,,8,4,9,40,\n"
    )
    sizes = {"fat": 32, "thin": 4}
    groups = [{"name": one, "nodes": 4, "memory_gb": size, "partitions": [one]} for one, size in sizes.items()]
    domains = [
        {"name": "big", "cluster": {"group": groups}, "jobs": str(big)},
        {"name": "small", "cluster": 8, "jobs": str(small)},
    ]
    _, run = written(tmp_path, {"domain": domains})
    assert run.tables["big"].start_us.tolist() == [0, 50_000_000, 2_000_000]
    found = load_run(tmp_path)
    assert found.coupled is not None
    again = run_domains(found.coupled)
    for name, table in run.tables.items():
        assert again.tables[name].journal_hash == table.journal_hash
    assert found.domains["small"].prepared.workload.extra["skip_threshold"].tolist() == [2, -1, -1]
    assert "skip_threshold" not in found.domains["big"].prepared.workload.extra


# ---- explained ------------------------------------------------------------------------------------------------------

# b2 is ready at 0, its mate a1 only when a0 has ended at 100
BIG = "a0,10,0,100,100,\na1,4,1,50,50,small:b2\na2,2,2,30,30,\n"
SMALL = "b1,2,0,500,500,\nb2,6,0,60,60,\nb3,4,3,40,40,\n"


def reasons(story: dict[str, Any]) -> list[tuple[float, str]]:
    return [(one["at_s"], one["reason"]) for one in story["reasons"]]


def test_a_job_that_holds_its_nodes(tmp_path: Path) -> None:
    story = explain_job(pair(tmp_path, BIG, SMALL), "b2")
    assert story["job_id"] == "small:b2"
    assert story["domain"] == "small"
    assert story["group"] == "big:a1+small:b2"
    assert [mate["job_id"] for mate in story["mates"]] == ["big:a1"]
    assert (story["wait_s"], story["sync_s"], story["held_s"]) == (100, 100, 100)
    told = reasons(story)
    assert told[0] == (0, "it keeps 6 nodes and waits for its mates for 0 s: big:a1 is not submitted yet")
    assert told[1] == (1, "it keeps 6 nodes and waits for its mates for 1 s: big:a1 is in its queue")
    assert all(at_s < 100 for at_s, _ in told)
    assert "its mate big:a1 started at the same instant" in story["summary"]
    assert "it held nodes for 1 min 40 s" in story["summary"]


def test_its_mate_waits_like_any_other_job(tmp_path: Path) -> None:
    story = explain_job(pair(tmp_path, BIG, SMALL), "big:a1")
    said = "needs 4 nodes, 0 idle (1 job running); promised a start within 1 min 39 s on 4 nodes"
    assert reasons(story)[0] == (1, said)
    assert story["sync_s"] == 0
    assert "small:b2 started at the same instant" in story["summary"]


def test_a_job_without_mates_is_told_for_which_job_nodes_are_held(tmp_path: Path) -> None:
    """b1 runs on 2 of 10 nodes, 6 are held for b2: b3 does not fit on the other two."""
    story = explain_job(pair(tmp_path, BIG, SMALL), "b3")
    first = "needs 4 nodes, 2 idle (1 job running, 6 nodes held for job b2, which waits for its mates)"
    assert reasons(story)[0][1].startswith(first)
    assert story["group"] is None
    assert story["mates"] == []


def test_a_job_that_yields(tmp_path: Path) -> None:
    story = explain_job(pair(tmp_path, BIG, SMALL, ("yield", "yield")), "small:b2")
    told = reasons(story)
    said = "it gave up its turn (1 time so far) because its mates are not ready: big:a1 is not submitted yet"
    assert told[0] == (0, said)
    assert story["yields"] >= 1
    assert "it gave nodes back" in story["summary"]


def test_a_job_with_an_agreed_start(tmp_path: Path) -> None:
    told = reasons(explain_job(pair(tmp_path, BIG, SMALL, ("agree", "agree")), "small:b2"))
    assert any(text.startswith("its nodes are reserved in ") and "big:a1" in text for _, text in told)


def test_a_committed_start_is_told_while_its_instant_is_ahead(tmp_path: Path) -> None:
    """The leader decides; its mate hears of it when the start is due."""
    story = explain_job(pair(tmp_path, BIG, SMALL, coupling={"latency_s": 5.0}), "big:a1")
    at_s, text = reasons(story)[-1]
    assert text.startswith("it keeps 4 nodes and starts in 5 s, together with its mates: small:b2 ")
    assert story["start_s"] == at_s + 5


def test_instants_are_true_ones_whatever_a_domains_clock_shows(tmp_path: Path) -> None:
    folder = pair(tmp_path, BIG, SMALL, small={"clock_offset_s": 5000.0})
    assert reasons(explain_job(folder, "b2"))[0] == (
        0, "it keeps 6 nodes and waits for its mates for 0 s: big:a1 is not submitted yet"
    )  # fmt: skip


# Figure 2 of the paper: both groups hold in one domain and wait in the other
DEADLOCK = ("a1,10,0,50,50,small:b1\na2,10,5,50,50,small:b2\n", "b2,10,0,50,50,\nb1,10,5,50,50,\n")
CYCLE = (
    "big:a1+small:b1 waits for 10 nodes on small, where big:a2+small:b2 holds 10; "
    "big:a2+small:b2 waits for 10 nodes on big, where big:a1+small:b1 holds 10"
)


@pytest.mark.parametrize("on_deadlock", ["ignore", "report"])
def test_a_deadlock_is_named(on_deadlock: str, tmp_path: Path) -> None:
    keys = {"release_s": 0.0, "on_deadlock": on_deadlock}
    story = explain_job(pair(tmp_path, *DEADLOCK, big=keys, small=keys), "big:a1")
    assert story["start_s"] is None
    assert story["deadlock"] == CYCLE
    assert "never ran" in story["summary"]
    assert CYCLE in story["summary"]
    assert len(story["reasons"]) < 20  # a longer wait is no other reason
    if on_deadlock == "report":  # the domains themselves know
        assert any(text.endswith(CYCLE) for _, text in reasons(story))


def test_ids_like_numbers_are_those_of_the_tables(tmp_path: Path) -> None:
    """The core numbers jobs from 0 in order of submission; the tables have other numbers."""
    big = "70,10,0,100,100,\n71,4,1,50,50,small:91\n"
    small = "90,2,0,500,500,\n91,6,0,60,60,\n"
    story = explain_job(pair(tmp_path, big, small), "91")
    assert reasons(story)[1][1] == "it keeps 6 nodes and waits for its mates for 1 s: big:71 is in its queue"


def test_names_of_jobs(tmp_path: Path) -> None:
    folder = pair(tmp_path, "1,2,0,9,9,\n2,2,0,9,9,\n99,20,0,9,9,\n", "1,2,0,9,9,\n3,2,0,9,9,\n")
    assert explain_job(folder, "2")["job_id"] == "big:2"
    assert explain_job(folder, "small:1")["job_id"] == "small:1"
    assert explain_job(folder, "99")["summary"] == "job big:99 was rejected: larger than the machine"
    for job, words in (
        ("1", r"several domains have a job '1'.*say big:1 or small:1"),
        ("4", r"no job '4' in this run.*big, small"),
        ("small:2", r"no job '2' in domain small"),
        ("large:2", r"no domain 'large' in this run.*it has big, small"),
    ):
        with pytest.raises(InputError, match=words):
            explain_job(folder, job)


def test_the_page_explains_it_and_knows_every_node(tmp_path: Path) -> None:
    folder = pair(tmp_path, BIG, SMALL, small={"cluster": {"nodes": 10, "cores": 4}})
    run = FinishedRun(folder)
    assert view_jobs.one_job(run, "small:b2")["replay"] is True
    assert [group.cores for group in run.groups] == [1] * 10 + [4] * 10
