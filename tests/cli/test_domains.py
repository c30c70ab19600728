"""The verbs on several domains: simulate, compare, why, replay, advise; wrong input is one sentence and status 2."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from cli_calls import cohabit

ROOT = Path(__file__).parents[2]
HEAD = "job_id,program,processes,submit_s,run_s,limit_s,mate\n"
BIG = HEAD + "a0,,10,0,100,100,\na1,,4,1,50,50,small:b2\na2,,2,2,30,30,\n"
SMALL = HEAD + "b1,,2,0,500,500,\nb2,,6,0,60,60,\nb3,,4,3,40,40,\n"
SCENARIO = """
[[domain]]
name = "big"
cluster = 10
jobs = "big.csv"
scheme = "yield"
[[domain]]
name = "small"
cluster = 10
jobs = "small.csv"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "big.csv").write_text(BIG)
    (tmp_path / "small.csv").write_text(SMALL)
    path = tmp_path / "both.toml"
    path.write_text(SCENARIO)
    return path


def test_simulate(scenario: Path, tmp_path: Path) -> None:
    answer = cohabit("simulate", scenario, "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    assert answer.document["coupling"]["groups_together"] == 1
    assert set(answer.document["domains"]) == {"big", "small"}
    frame = pl.read_csv(tmp_path / "out" / "jobs.csv")
    assert frame.columns[-3:] == ["domain", "group", "first_ready_s"]
    assert frame.filter(pl.col("group").is_not_null())["start_s"].n_unique() == 1
    assert (tmp_path / "out" / "report.html").is_file()
    shown = cohabit("simulate", scenario, "--policy", "cosched-agree")
    assert "1 groups, 1 started at the same instant" in shown.out


def test_compare_and_sweep(scenario: Path) -> None:
    answer = cohabit("compare", scenario, "--policies", "cosched-hold,cosched-yield", "--json")
    held, yielded = answer.document["runs"]
    assert held["metrics"]["mean_wait_s"] > yielded["metrics"]["mean_wait_s"]


def test_what_does_not_go_with_several_domains(scenario: Path) -> None:
    assert "do not go with [[domain]]" in cohabit("simulate", scenario, "--nodes", "5").sentence()
    assert (
        "the fast engine cannot do this: several domains"
        in cohabit("simulate", scenario, "--engine", "fast").sentence()
    )


def test_why(scenario: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cohabit("simulate", scenario, "--out", run).code == 0
    story = cohabit("why", "b2", "--run", run, "--json").document
    assert story["job_id"] == "small:b2"
    assert story["mates"][0]["job_id"] == "big:a1"
    shown = cohabit("why", "small:b2", "--run", run).out.splitlines()
    assert shown[0].startswith("job small:b2 (6 nodes, 1 min requested) waited 1 min 40 s under ")
    assert shown[0].endswith("its mate big:a1 started at the same instant; nodes for it were first free "
                             "1 min 40 s before its start; it held nodes for 1 min 40 s")  # fmt: skip
    assert shown[1].endswith("it keeps 6 nodes and waits for its mates for 0 s: big:a1 is not submitted yet")
    assert shown[2].endswith("it keeps 6 nodes and waits for its mates for 1 s: big:a1 is in its queue")
    assert "no domain 'tiny' in this run; it has big, small" in cohabit("why", "tiny:b2", "--run", run).sentence()
    assert "no job 'x' in this run" in cohabit("why", "x", "--run", run).sentence()


@pytest.mark.parametrize("report", [True, False])
def test_a_journal_is_written_and_replayed(scenario: Path, tmp_path: Path, report: bool) -> None:
    run = tmp_path / "run"
    answer = cohabit("simulate", scenario, "--out", run, "--journal", *([] if report else ["--no-report"]))
    assert "journal.parquet" in answer.out
    shown = cohabit("replay", run, "--verify")
    assert (shown.code, shown.err) == (0, "")
    assert "messages between big, small: identical" in shown.out
    told = cohabit("replay", run / "journal.parquet", "--json").document
    assert told["identical"] is True
    assert told["domains"] == ["big", "small"]
    assert told["messages"] > 0
    assert cohabit("why", "b2", "--run", run).code == 0
    found = cohabit("view", run, "--report", "--json").document["report"]
    assert "What starting together cost" in Path(found).read_text()


def test_a_run_without_a_journal_cannot_be_replayed(scenario: Path, tmp_path: Path) -> None:
    assert cohabit("simulate", scenario, "--out", tmp_path / "run").code == 0
    assert "simulate with --out DIR --journal" in cohabit("replay", tmp_path / "run", "--verify").sentence()


@pytest.mark.parametrize(
    ("mate", "words"),
    [("small:b9", "does not have"), ("large:b2", "unknown domain 'large'"), ("big:a1", "the job itself"),
     ("b2", "is not DOMAIN:JOB")],
)  # fmt: skip
def test_a_wrong_mate_is_one_sentence(scenario: Path, tmp_path: Path, mate: str, words: str) -> None:
    (tmp_path / "big.csv").write_text(BIG.replace("small:b2", mate))
    sentence = cohabit("simulate", scenario, "--out", tmp_path / "out").sentence()
    assert words in sentence
    assert "big.csv" in sentence
    assert not (tmp_path / "out").exists()


def test_a_conflict_names_both_sides(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text(SMALL.replace("b2,,6,0,60,60,", "b2,,6,0,60,60,big:a2"))
    sentence = cohabit("simulate", scenario).sentence()
    assert "would have two mates" in sentence
    assert "big:a1" in sentence
    assert "big:a2" in sentence


def test_windows_that_cannot_hold(scenario: Path) -> None:
    one = '[[coupling.window]]\nfirst = "big"\nsecond = "small"\nleast_s = 5\nmost_s = 9\n'
    scenario.write_text(
        SCENARIO + one + one.replace('first = "big"', 'first = "small"').replace('second = "small"', 'second = "big"')
    )
    assert "cannot hold together" in cohabit("simulate", scenario).sentence()


def make_logs(tmp_path: Path) -> tuple[Path, Path]:
    big, small = tmp_path / "big.swf", tmp_path / "small.swf"
    assert cohabit("generate", "intrepid", "--jobs", "120", "-o", big).code == 0
    assert cohabit("generate", "eureka", "--span-days", "0.4", "-o", small).code == 0
    return big, small


def test_advice(tmp_path: Path) -> None:
    big, small = make_logs(tmp_path)
    answer = cohabit("advise", "coscheduling", big, small, "--days", "1", "--json")
    assert answer.code == 0, answer.err
    told = answer.document
    assert set(told["advice"]) == {"big", "small"}
    assert len(told["cases"]) == 5
    assert all(case["groups_together"] == case["groups"] == told["groups"] for case in told["cases"])
    assert all(words.endswith(".") for words in told["words"])
    shown = cohabit("advise", "coscheduling", big, small, "--days", "1")
    assert "With the paper's schemes" in shown.out


def test_advice_on_many_pairs_is_to_yield_or_switch_off(tmp_path: Path) -> None:
    big, small = make_logs(tmp_path)
    told = cohabit("advise", "coscheduling", big, small, "--days", "1", "--vicinity-s", "100000", "--json").document
    assert told["paired_pct"] > 33.4
    assert "hold" not in told["advice"].values()
    assert "switch coscheduling off" in " ".join(told["words"])


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    big, small = make_logs(tmp_path)
    calls = {
        ("magic", big, small): "no advice on called 'magic'",
        ("coscheduling", big): "1 log cannot be coupled",
        ("coscheduling", big, small, "--nodes", "4"): "does not give a size to each",
        ("coscheduling", big, small, "--days", "0"): "not a length of time",
        ("coscheduling", big, small, "--pairing", "magic"): "use vicinity, proportion, column",
        ("coscheduling", big, small, "--vicinity-s", "0"): "pairs no jobs",
        ("coscheduling", big, small, "--pairing", "proportion", "--proportion", "0.1"): "equally many jobs",
        ("coscheduling", big, small, "--pairing", "column"): "no jobs of these logs belong together",
        ("coscheduling", big, small, "--order", "magic"): "magic",
        ("coscheduling", big, tmp_path / "none.swf"): "none.swf",
    }  # fmt: skip
    for arguments, words in calls.items():
        assert words in cohabit("advise", *arguments).sentence(), arguments


def test_the_shipped_scenario_is_read() -> None:
    from cohabit.app.scenario.reading import read_scenario

    for path in [ROOT / "scenarios" / "coupled.toml", *sorted((ROOT / "examples" / "coupled").glob("*.toml"))]:
        assert len(read_scenario(path).domain) == 2
