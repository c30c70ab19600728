"""docs/operators-first-hour.md is typed: the what-if on logs as sacct writes them, the rest on a real Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.advise.sharing import Question, advise, names_for, read_log, with_programs
from cohabit.app.advise.sharing_words import ASSUMPTIONS, judge
from cohabit.app.advise.stretches import cut
from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import simulation
from cohabit.model.units import MINUTE, SECOND
from cohabit.model.workload import ACCEPTED, Ints, Workload
from cohabit.trace.lublin import generate_lublin
from cohabit.trace.programs import catalogue
from cohabit.trace.swf import read_swf, write_swf
from tests.cli.cli_calls import cohabit
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operators-first-hour.md"
KTH = ROOT / "tests" / "data" / "swf" / "KTH-SP2-1996-2.1-cln.swf.xz"
BLOCK = re.compile(r"^```sh( sacct)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADER = "JobID|User|JobName|Submit|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|ReqMem|State\n"


def write_sacct(jobs: Workload, path: Path, waits_us: Ints) -> None:
    """As `sacct --parsable2` would have written these jobs, with steps, one that never ran and one that still runs."""
    lines = [HEADER]
    for row in np.flatnonzero(jobs.rejection == ACCEPTED).tolist():
        begun_s = int(jobs.submit_us[row]) // SECOND
        run_s, wait_s = int(jobs.run_us[row]) // SECOND, int(waits_us[row]) // SECOND
        submit, start, end = (
            datetime.fromtimestamp(1.7e9 + at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            for at in (begun_s, begun_s + wait_s, begun_s + wait_s + run_s)
        )
        limit = -(-int(jobs.limit_us[row]) // MINUTE)
        user = f"u{int(jobs.user[row]) % 40}"
        what = f"{user}|job{row % 7}|{submit}|{start}|{end}|{run_s}|{limit}|{int(jobs.processes[row])}|4000Mn|COMPLETED"
        lines += [f"{row}|{what}\n", f"{row}.batch|{what}\n"]
    first = lines[1].split("|")
    lines.append("|".join(["90001", *first[1:4], "Unknown", "Unknown", "0", *first[7:10], "CANCELLED by 7\n"]))
    lines.append("|".join(["90002", *first[1:5], "Unknown", "50", *first[7:10], "RUNNING\n"]))
    path.write_text("".join(lines))


def small_log(folder: Path, jobs: int = 120, slower: float = 1.0) -> Path:
    """Four nodes of 28 cores under FCFS with EASY; `slower`: all waits are so many times those."""
    log = generate_lublin(np.random.default_rng(5), jobs, 4 * 28, load=0.9)
    shape = {"cluster": {"nodes": 4, "cores": 28}, "world": {"kill": False}, "jobs": {"trace": "-"}}
    table, _ = simulation.run(simulation.prepare(scenario_for(shape), log))
    write_sacct(log, folder / "log.txt", ((table.start_us - log.submit_us) * slower).astype(np.int64))
    return folder / "log.txt"


def type_in(lines: list[str], folder: Path, **more: str) -> str:
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], cwd=folder, env=os.environ | {"PATH": paths} | more,
        capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def steps() -> dict[str, list[str]]:
    """What is to be typed, by the heading it stands under."""
    parts = re.split(r"^## (\d)\..*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        number: [lines for sacct, lines in BLOCK.findall(text) if not sacct]
        for number, text in zip(parts[::2], parts[1::2], strict=True)
    }


# ---- what if --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_what_if_of_the_page(tmp_path: Path) -> None:
    small_log(tmp_path)
    said = type_in(steps()["2"], tmp_path, NODES="4", CORES="28", DAYS="1", REPEAT="2")
    assert "Advice: " in said
    assert "Next: " in said
    for name in ("today", "whatif"):
        assert (tmp_path / name / "summary.json").exists()


def test_the_advice_as_a_document(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    words = ("advise", "sharing", log, "--nodes", "4", "--cores", "28", "--days", "1", "--repeat", "2", "--json")
    answer = cohabit(*words)
    assert answer.code == 0, answer.err
    told = answer.document
    assert told["advice"] in ("ce-easy", "ce", "cs", "sns", "cohabit")
    assert {(one["assumption"], one["policy"]) for one in told["cases"]} == {
        (assumption, policy) for assumption in ASSUMPTIONS for policy in ("ce-easy", "ce", "cs", "sns", "cohabit")
    }
    by_key = {(one["assumption"], one["policy"]): one for one in told["cases"]}
    assert abs(told["today_against_log"]["off_pct"]) < 10, "made by this very rule, but with all that came before"
    for assumption in ASSUMPTIONS:
        assert by_key[assumption, "ce-easy"]["mean_turnaround_change_pct"]["mean"] == 0
        assert by_key[assumption, "ce"]["slowed_pct"] == 0  # nobody has neighbours
    assert by_key["greedy", "cs"]["slowed_pct"] > by_key["gentle", "sns"]["slowed_pct"]
    assert told["defects"]["job steps, skipped"] > 100
    assert cohabit(*words).document == told  # the same again


def test_what_is_assumed_differs(tmp_path: Path) -> None:
    programs = catalogue("sns12").programs
    gentle, mixed, greedy = (set(names_for(one, programs)) for one in ASSUMPTIONS)
    assert not gentle & greedy
    assert gentle | greedy <= mixed == set(programs)
    jobs = read_log(small_log(tmp_path))
    question = Question(tmp_path / "log.txt", 4, 28)
    drawn = with_programs(jobs, list(programs), question, 0, programs)
    kinds: dict[tuple[int, int, bool], set[int]] = {}
    for row in range(len(jobs)):
        kind = (int(jobs.user[row]), int(jobs.program[row]), bool(jobs.processes[row] > 28))
        kinds.setdefault(kind, set()).add(int(drawn.program[row]))
        if kind[2]:
            assert not programs[drawn.program_names[drawn.program[row]]].single_node
    assert all(len(found) == 1 for found in kinds.values())  # a user's jobs of one name are one program
    other = with_programs(jobs, list(programs), question, 1, programs)
    assert (other.program != drawn.program).any()


def test_stretches_lie_inside_the_log(tmp_path: Path) -> None:
    jobs = read_log(small_log(tmp_path, 400))
    parts = cut(jobs, 0.5, 3)
    begins = [part.begin_us for part in parts]
    assert len(begins) == len(set(begins)) == 3
    half = 12 * 60 * MINUTE
    assert (np.diff(begins) >= half).all(), "they do not overlap"
    for part in parts:
        inside = part.jobs.submit_us[part.counted]
        assert int(inside.min()) >= part.begin_us
        assert int(inside.max()) < part.begin_us + half
        assert int(part.jobs.submit_us.min()) >= part.begin_us - half // 2
    assert not parts[1].counted.all(), "jobs before it fill the machine"
    assert [len(one.jobs) for one in cut(jobs, 3000, 2)] == [len(jobs)], "a log of one stretch is one stretch"
    assert len(cut(jobs, 0.5, 1000)) <= np.ptp(jobs.submit_us) // half


def test_a_short_log_has_no_interval(tmp_path: Path) -> None:
    shape = ("--nodes", "4", "--cores", "28", "--json")
    told = cohabit("advise", "sharing", small_log(tmp_path), *shape, "--days", "30").document
    assert (told["stretches"], told["repeats"]) == (1, 5)
    assert all(one["mean_turnaround_change_pct"]["low"] is None for one in told["cases"])
    assert any("1 stretch of 30 days that does not overlap, and an interval needs 3" in one for one in told["words"])
    told = cohabit("advise", "sharing", small_log(tmp_path), *shape, "--days", "0.3").document
    assert told["stretches"] >= 3
    moved = [one["mean_turnaround_change_pct"] for one in told["cases"] if one["policy"] == "cs"]
    assert all(one["low"] <= one["mean"] <= one["high"] for one in moved)


def test_no_advice_where_the_simulation_does_not_give_the_waits_of_the_log(tmp_path: Path) -> None:
    shape = ("--nodes", "4", "--cores", "28", "--days", "1", "--repeat", "2")
    answer = cohabit("advise", "sharing", small_log(tmp_path, slower=3.0), *shape)
    assert answer.code == 0
    assert re.search(r"\(-6\d %\) in the simulation of ce-easy: more than 20 % off\.", answer.out)
    assert "No advice:" in answer.out
    assert "cohabit import slurm-conf" in answer.out
    assert "Advice: " not in answer.out.replace("No advice: ", "")
    told = cohabit("advise", "sharing", tmp_path / "log.txt", *shape, "--json").document
    assert (told["advice"], told["cases"], told["today_against_log"]["believed"]) == (None, [], False)


def test_a_log_without_waits_and_a_nearly_empty_machine_are_said(tmp_path: Path) -> None:
    swf = tmp_path / "jobs.swf"
    log = generate_lublin(np.random.default_rng(5), 60, 4 * 28, load=0.2)
    write_swf(log, swf)
    said = cohabit("advise", "sharing", swf, "--nodes", "4", "--cores", "280", "--days", "1", "--repeat", "1").out
    assert said.startswith("The log offers 2 % of 4 nodes of 280 cores. That is nearly empty")
    assert "The log has no waits" in said
    assert "Advice: stay with ce-easy. Jobs do not wait" in said
    assert said.index("Advice: ") < said.index("node-hours") < said.index("Simulated: ")
    assert "cohabit slurm shadow" not in said


def test_the_site_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=n[0-3] CPUs=28\nPartitionName=a Nodes=ALL OverSubscribe=EXCLUSIVE\n")
    site = tmp_path / "site.toml"
    assert cohabit("import", "slurm-conf", tmp_path / "slurm.conf", "-o", site).code == 0
    words = ("advise", "sharing", small_log(tmp_path), "--site", site, "--days", "1", "--repeat", "1")
    told = cohabit(*words, "--json").document
    assert (told["today"], told["nodes"], told["cores"]) == ("site", 4, 28)
    assert abs(told["today_against_log"]["off_pct"]) < 20
    assert "--nodes and --cores do not go with --site" in cohabit(*words, "--nodes", "4").sentence()


def test_an_advice_must_be_clear_where_programs_are_mixed() -> None:
    def case(assumption: str, policy: str, mean: float, spread: float = 1.0) -> dict[str, object]:
        change = {"mean": mean, "low": mean - spread, "high": mean + spread}
        return {"assumption": assumption, "policy": policy, "mean_turnaround_change_pct": change}

    def cases(cs: tuple[float, float, float], sns: tuple[float, float, float]) -> list[dict[str, object]]:
        found = [case(name, "ce-easy", 0.0, 0.0) for name in ASSUMPTIONS]
        found += [case(name, "cs", change) for name, change in zip(ASSUMPTIONS, cs, strict=True)]
        return found + [case(name, "sns", change) for name, change in zip(ASSUMPTIONS, sns, strict=True)]

    told = judge(cases((-20, -10, 8), (-5, -9, -7)), "ce-easy")
    assert (told["advice"], told["harms_for"], told["holds_for"]) == ("cs", ["greedy"], ["gentle", "mixed"])
    told = judge(cases((-20, 1, 8), (-5, -2, -7)), "ce-easy")
    assert (told["advice"], told["changes"]) == ("ce-easy", False)


@pytest.mark.slow
def test_the_advice_from_a_real_log(tmp_path: Path) -> None:
    """KTH's SP2 (Parallel Workloads Archive), as sacct would have written it, as 7 nodes of 16 cores."""
    log = read_swf(KTH, every_field=True)
    log = log.take(log.order()[:900])
    write_sacct(log, tmp_path / "log.txt", np.maximum(log.extra["swf_wait_us"], 0))
    told = advise(Question(tmp_path / "log.txt", 7, 16, days=2, repeats=3))
    sys.stdout.write("\n".join(told["words"]) + "\n")
    assert told["jobs_simulated"] > 60
    assert told["today_against_log"]["believed"] is False, "that machine did not backfill"
    assert told["advice"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--nodes", "0", "--cores", "28"), "--nodes"),
        (("--nodes", "4", "--cores", "28", "--days", "0"), "not a length of time"),
        (("--nodes", "4", "--cores", "28", "--today", "never"), "use whole or cores"),
        (("--nodes", "4", "--cores", "28", "--ways", "40"), "--ways"),
        (("--nodes", "4", "--cores", "28", "--repeat", "0"), "--repeat"),
        (("--nodes", "4"), "--cores"),
    ],
)
def test_wrong_questions_are_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    assert words in cohabit("advise", "sharing", small_log(tmp_path), *options).sentence()


def test_wrong_logs_are_refused(tmp_path: Path) -> None:
    shape = ("--nodes", "4", "--cores", "28")
    assert "none.txt" in cohabit("advise", "sharing", tmp_path / "none.txt", *shape).sentence()
    log = small_log(tmp_path)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:20]))
    assert "jobs ran" in cohabit("advise", "sharing", log, *shape).sentence()
    log.write_text(HEADER + "1|cut\n")
    assert "line 2" in cohabit("advise", "sharing", log, *shape).sentence()


# ---- shadow and attach ----------------------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SlurmCluster]:
    if reason := missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    with running_slurm(tmp_path / "slurm", nodes=2, cores=4) as cluster:
        yield cluster


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-install")
def test_shadow_and_one_job_of_the_page(plain: SlurmCluster, tmp_path: Path) -> None:
    script, over = tmp_path / "job.sh", threading.Event()
    script.write_text("#!/bin/sh\nsleep 1\n")

    def work() -> None:
        while not over.wait(0.7):
            plain.run("sbatch", "--output=/dev/null", "-n2", str(script), check=False)

    users = threading.Thread(target=work)
    users.start()
    try:
        said = type_in(steps()["3"], tmp_path, SLURM_CONF=str(plain.conf), WATCH="15s", POLICY="cs")
    finally:
        over.set()
        users.join(60)
    assert "would have shared nodes" in said
    said = type_in(steps()["4"], tmp_path, SLURM_CONF=str(plain.conf))
    assert "COMPLETED" in said or " CD " in said
    assert "given back to Slurm" in said
