"""Wrong input or a wrong call: one sentence on stderr, exit 2, no traceback, nothing written."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest
from cli_calls import EXAMPLE, JOB_A, Answer, cohabit, program

TABLE = "job_id,program,processes,submit_s,run_s,after\n"
JOBS = '\n[jobs]\ntrace = "abc.swf"\n'


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(tmp_path: Path, *arguments: str | Path) -> str:
    """The sentence, after checking that the call left the folder as it was."""
    before = sorted(tmp_path.rglob("*"))
    sentence = cohabit(*arguments).sentence()
    assert sorted(tmp_path.rglob("*")) == before
    return sentence


# ---- files ----------------------------------------------------------------------------------------------------------

FILES: dict[str, tuple[bytes, str]] = {
    "cut.swf": (EXAMPLE.encode()[:140], "cut short"),
    "cut.swf.xz": (lzma.compress(EXAMPLE.encode())[:60], "cut short"),
    "cut.swf.gz": (gzip.compress(EXAMPLE.encode())[:60], "cut short"),
    "damaged.swf.gz": (gzip.compress(EXAMPLE.encode())[:-8] + b"12345678", "damaged"),
    "no-jobs.swf": (b"; MaxNodes: 10\n", "has no jobs"),
    "empty.swf": (b"", "has no jobs"),
    "empty.swf.xz": (lzma.compress(b""), "has no jobs"),
    "binary.swf": (bytes(range(256)) * 20 + b"\n", "not a number"),
    "words.swf": (b"this is not a trace\n", "not a number"),
    "unknown-size.swf": (JOB_A.encode(), "how large its machine is"),
    "no-rows.csv": (TABLE.encode(), "has no jobs"),
    "no-column.csv": (b"job_id,program\n1,a\n", "no column processes"),
    "typo.csv": (b"job_id,program,processes,submit_s,rn_s\n1,a,1,0,5\n", "did you mean run_s?"),
    "twice.csv": (f"{TABLE}1,a,1,0,5,\n1,a,1,0,5,\n".encode(), "line 3, job_id: 1 is already used on line 2"),
    "circle.csv": (f"{TABLE}1,a,1,0,5,2\n2,a,1,0,5,1\n".encode(), "(circular)"),
    "itself.csv": (f"{TABLE}1,a,1,0,5,1\n".encode(), "(circular)"),
    "nobody.csv": (f"{TABLE}1,a,1,0,5,9\n".encode(), "job 9 does not exist"),
    "word.csv": (f"{TABLE}1,a,x,0,5,\n".encode(), "line 2, processes: 'x' is not a whole number"),
    "hole.csv": (f"{TABLE}1,a,1,,5,\n".encode(), "line 2, submit_s: is empty"),
    "no-run.csv": (f"{TABLE}1,a,1,0,,\n".encode(), "run time"),
    "slurm.txt": (b"JobID|User|Submit\n1|ann|2024-01-01T00:00:00\n", "cohabit import sacct"),
    "broken.toml": (b"[cluster\nnodes = 1\n", "not valid TOML"),
    "binary.toml": (b"\xff\xfe\x00\x01", "cannot be read"),
    "empty.toml": (b"", "file, trace or generator"),
}


@pytest.mark.parametrize("name", FILES)
def test_unusable_files(tmp_path: Path, name: str) -> None:
    content, words = FILES[name]
    path = write(tmp_path / name, content)
    more = ["--nodes", "10"] if name.endswith(".csv") else []
    sentence = refused(tmp_path, "simulate", path, *more)
    assert name in sentence
    assert words in sentence


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path, "simulate", tmp_path)
    for name in ("absent.swf", "absent.toml", "absent.csv"):
        sentence = refused(tmp_path, "simulate", tmp_path / name)
        assert name in sentence
        assert "no such file" in sentence
    (tmp_path / "folder.toml").mkdir()
    assert "folder.toml" in refused(tmp_path, "simulate", tmp_path / "folder.toml")


def test_a_machine_too_small_for_every_job(trace: Path) -> None:
    sentence = refused(trace.parent, "simulate", trace, "--nodes", "1")
    assert "none of the 3 jobs can run on 1 node" in sentence
    assert "smallest asks for 2" in sentence


@pytest.mark.slow
def test_the_real_program_says_the_same(trace: Path) -> None:
    answer = program("simulate", "absent.swf", "--json", folder=trace.parent)
    assert "absent.swf" in answer.sentence()


# ---- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "0"], "--nodes 0"),
        (["--nodes", "-5"], "--nodes -5"),
        (["--cores", "0"], "--cores 0"),
        (["--seed", "-1"], "--seed -1"),
        (["--order", "fcsf"], "did you mean 'fcfs'"),
        (["--order", "zzz"], "known: fcfs, sjf"),
        (["--backfill", "-3"], "backfill"),
        (["--backfill", "2.5"], "backfill"),
        (["--backfill-order", "sfj"], "did you mean 'sjf'"),
        (["--backfill", "none", "--backfill-order", "sjf"], "has no effect"),
        (["--placement", "exclusiv"], "did you mean 'exclusive'"),
        (["--policy", "ce-esy"], "did you mean 'ce-easy'"),
        (["--engine", "quick"], "auto, fast or steps"),
        (["--journal"], "--out DIR"),
        (["--no-report"], "--out DIR"),
        (["--order", "absent.py"], "absent.py"),
    ],
)
def test_wrong_options_of_simulate(trace: Path, options: list[str], words: str) -> None:
    assert words in refused(trace.parent, "simulate", trace, *options)


def test_unknown_backfilling_offers_the_nearest(trace: Path) -> None:
    assert "did you mean 'easy'" in refused(trace.parent, "simulate", trace, "--backfill", "esay")


def test_calls_the_parser_refuses_are_one_sentence_too(trace: Path) -> None:
    for arguments in (["simulate", trace, "--nodes", "ten"], ["simulate", trace, "--bogus"], ["simulate"], ["bogus"]):
        assert refused(trace.parent, *arguments)


def test_parser_errors_exit_with_2_and_no_traceback(trace: Path) -> None:
    for arguments in (["simulate", trace, "--nodes", "ten"], ["simulate", trace, "--bogus"], ["simulate"], ["bogus"]):
        answer = cohabit(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert "Traceback" not in answer.err


@pytest.mark.parametrize("place", ["abc.swf", "abc.swf/below", "/proc/cohabit", "/sys/cohabit", "/dev/null"])
@pytest.mark.parametrize("verb", ["simulate", "compare", "sweep", "demo"])
def test_output_folders_that_cannot_be_written(trace: Path, verb: str, place: str) -> None:
    folder = trace.parent / place
    call: list[str | Path] = {"sweep": [verb, trace, "--vary", "seed=1"], "demo": [verb]}.get(verb, [verb, trace])
    sentence = refused(trace.parent, *call, "--out", folder)
    assert str(folder) in sentence
    assert "output folder" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(trace: Path) -> None:
    closed = trace.parent / "closed"
    closed.mkdir(mode=0o500)
    assert "closed" in refused(trace.parent, "simulate", trace, "--out", closed)
    assert "closed" in refused(trace.parent, "simulate", trace, "--out", closed / "new")


@pytest.mark.parametrize("verb", ["simulate", "compare"])
def test_a_refused_call_makes_no_output_folder(trace: Path, verb: str) -> None:
    refused(trace.parent, verb, trace.with_name("absent.swf"), "--out", trace.parent / "new")
    refused(trace.parent, verb, trace, "--nodes", "1", "--out", trace.parent / "new")


# ---- scenario files -------------------------------------------------------------------------------------------------

SCENARIOS: dict[str, str] = {
    # unknown keys, at every level
    "sed = 1" + JOBS: "unknown key 'sed'; did you mean 'seed'",
    "[clutser]\nnodes = 3" + JOBS: "did you mean 'cluster'",
    "[cluster]\nnode = 3" + JOBS: "'cluster.node'; did you mean 'nodes'",
    "[[cluster.group]]\nnodes = 3\ncoers = 1" + JOBS: "'cluster.group.coers'; did you mean 'cores'",
    '[[cluster.maintenance]]\nbegin_s = 1\nends_s = 2\nnodes = "1"' + JOBS: "did you mean 'end_s'",
    '[jobs]\ntraec = "abc.swf"\n': "'jobs.traec'; did you mean 'trace'",
    '[policy]\nordr = "sjf"' + JOBS: "'policy.ordr'; did you mean 'order'",
    "[world]\nkil = true" + JOBS: "'world.kil'; did you mean 'kill'",
    "[faults]\nnode_mtbf = 1" + JOBS: "did you mean 'node_mtbf_h'",
    # wrong types
    'seed = "a"' + JOBS: "seed",
    '[cluster]\nnodes = "3"' + JOBS: "cluster.nodes",
    "[cluster]\nnodes = 3.5" + JOBS: "cluster.nodes",
    "cluster = 3" + JOBS: "cluster",
    "[cluster]\nmaintenance = [3]" + JOBS: "cluster.maintenance",
    "[[cluster.maintenance]]\nbegin_s = 1" + JOBS: "end_s",
    "[policy]\nbackfill = 2.5" + JOBS: "policy.backfill",
    '[policy]\norder = "wfp"\norder_options = { exponent = "a" }' + JOBS: "order_options",
    "[world]\nkill = 1" + JOBS: "world.kill",
    "jobs = []": "jobs",
    # values
    "seed = -1" + JOBS: "seed = -1",
    "[cluster]\ncores = -3" + JOBS: "cores",
    "[cluster]\nmemory_gb = -3" + JOBS: "memory",
    "[faults]\nnode_mtbf_h = -3" + JOBS: "node_mtbf_h = -3",
    "[faults]\nnode_repair_h = -3" + JOBS: "node_repair_h = -3",
    "[faults]\nlate_reports_s = -3" + JOBS: "late_reports_s = -3",
    "[cluster]\nbandwidth_gbs = { a = 1.0 }" + JOBS: "bandwidth_gbs",
    "[cluster]\nbandwidth_gbs = { 1 = -1.0 }" + JOBS: "bandwidth",
    '[cluster]\nmaintenance = [{ begin_s = 5, end_s = 1, nodes = "0-1" }]' + JOBS: "maintenance",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "0-100" }]' + JOBS: "nodes 0 to 9",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "a-b" }]' + JOBS: "not a range",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "3-1" }]' + JOBS: "not a range",
    '[cluster]\nmaintenance = [{ begin_s = 5, end_s = 1, nodes = "0", announced_s = 0 }]' + JOBS: "before it begins",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "0-100", announced_s = 0 }]' + JOBS: "nodes 0 to 9",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "0", announced_s = 0, name = "w" }, '
    '{ begin_s = 7, end_s = 9, nodes = "1", announced_s = 0, name = "w" }]' + JOBS: "rename one",
    '[cluster]\nmaintenance = [{ begin_s = 1, end_s = 5, nodes = "0", announced = 0 }]' + JOBS: "announced_s",
    "[[cluster.group]]\nnodes = 0" + JOBS: "nodes",
    "[policy]\nbackfill = -1" + JOBS: "backfill",
    '[policy]\norder = "wfp"\norder_options = { exponnt = 2 }' + JOBS: "did you mean 'exponent'",
    '[policy]\norder = "fcfs"\norder_options = { exponent = 2 }' + JOBS: "exponent",
    '[policy]\nname = "ce-esy"' + JOBS: "did you mean 'ce-easy'",
    '[policy]\norder = "fcsf"' + JOBS: "did you mean 'fcfs'",
    # contradictions
    '[cluster]\nsharing = "exclusive"\noversubscribe = true' + JOBS: "contradicts",
    '[cluster]\nsharing = "sharedd"' + JOBS: "sharing",
    '[cluster]\non_node_loss = "forget"' + JOBS: "on_node_loss",
    "[cluster]\nnodes = 10\n[[cluster.group]]\nnodes = 3" + JOBS: "both nodes and [[cluster.group]]",
    "[cluster]\nways = 4\nmin_ways = 8" + JOBS: "min_ways",
    '[jobs]\ntrace = "abc.swf"\nfile = "jobs.csv"': "exactly one of",
    '[policy]\nbackfill = "conservative"\nbackfill_order = "sjf"' + JOBS: "has no effect",
    '[policy]\nname = "sns"\nbackfill_order = "sjf"' + JOBS: "where jobs share nodes",
    '[policy]\nname = "cohabit"\nshare_with = "friends"' + JOBS: "friends",
    '[policy]\nname = "cohabit"\nobjective = "fame"' + JOBS: "fame",
    '[policy]\nname = "cohabit"\nfairness = 0.5' + JOBS: "fairness",
    '[policy]\nname = "cohabit"\nfairness = nan' + JOBS: "fairness",
    # jobs
    '[jobs]\ntrace = "absent.swf"': "absent.swf",
    '[jobs]\ngenerator = "lubin"\n[cluster]\nnodes = 8': "did you mean 'lublin'",
    '[jobs]\ngenerator = "lublin"': "size of the machine",
    '[jobs]\ngenerator = "lublin"\nalpha = 0.5\n[cluster]\nnodes = 8': "no option 'alpha'",
    '[jobs]\ngenerator = "lublin"\njobs = -4\n[cluster]\nnodes = 8': "jobs.jobs = -4 is negative",
    '[jobs]\ngenerator = "lublin"\nload = -4.0\n[cluster]\nnodes = 8': "load",
}


@pytest.mark.parametrize("text", SCENARIOS)
def test_wrong_scenarios(trace: Path, text: str) -> None:
    path = write(trace.with_name("wrong.toml"), text)
    assert SCENARIOS[text] in refused(trace.parent, "simulate", path)


def simulated(trace: Path, text: str) -> Answer:
    return cohabit("simulate", write(trace.with_name("odd.toml"), text))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[cluster]\nnodes = -3" + JOBS, id="negative number of nodes"),
        pytest.param("[cluster]\nclosids = -1" + JOBS, id="negative closids"),
        pytest.param('[policy]\norder = "multifactor"\nfair_share_half_life_h = -1.0' + JOBS, id="negative half-life"),
        pytest.param("[faults]\nnode_mtbf_h = nan" + JOBS, id="mtbf that is not a number"),
        pytest.param("[faults]\nnode_mtbf_h = inf" + JOBS, id="infinite mtbf"),
        pytest.param(
            '[cluster]\nmaintenance = [{ begin_s = nan, end_s = 5, nodes = "0" }]' + JOBS, id="window from nan"
        ),
        pytest.param('[policy]\norder = "wfp"\norder_options = { exponent = nan }' + JOBS, id="exponent nan"),
        pytest.param(JOBS + "sigma = 0.5\n", id="generator option beside a trace"),
        pytest.param("[policy]\nbackfill_order_options = { exponent = 2.0 }" + JOBS, id="options of no order"),
    ],
)
def test_values_that_mean_nothing_are_refused(trace: Path, text: str) -> None:
    assert "odd.toml" in simulated(trace, text).sentence()


@pytest.mark.parametrize(
    "text",
    [
        "[cluster]\ncores = -3" + JOBS,
        '[cluster]\nsharing = "exclusive"\noversubscribe = true' + JOBS,
        '[policy]\norder = "fcsf"' + JOBS,
    ],
)
def test_the_sentence_names_the_scenario_file(trace: Path, text: str) -> None:
    assert "odd.toml" in simulated(trace, text).sentence()


def test_the_advice_fits_what_was_misspelt(trace: Path) -> None:
    text = '[jobs]\ngenerator = "lubin"\n[cluster]\nnodes = 8'
    assert "cohabit policies" not in simulated(trace, text).sentence()


# ---- a user's own order ---------------------------------------------------------------------------------------------

HEAD = "def scores(jobs, rows, now_us):\n    "
ORDERS = {
    "no function": ("x = 1\n", "no function scores"),
    "not a function": ("scores = 3\n", "no function scores"),
    "a syntax error": ("def scores(\n", "never closed"),
    "a missing module": ("import nosuchmodule\n", "nosuchmodule"),
    "raises": (HEAD + "raise ValueError('out of ideas')\n", "out of ideas"),
    "raises at once": ("CHANGING = False\n" + HEAD + "raise ValueError('out of ideas')\n", "out of ideas"),
    "unknown column": (HEAD + "return jobs.nosuch[rows]\n", "nosuch"),
    "too few": (HEAD + "return jobs.submit_us[rows][:-1]\n", "scores"),
    "too few at once": ("CHANGING = False\n" + HEAD + "return jobs.submit_us[rows][:-1]\n", "scores"),
    "one number": (HEAD + "return 3\n", "scores"),
    "nothing": (HEAD + "return None\n", "scores"),
    "too few parameters": ("def scores(jobs):\n    return jobs.submit_us\n", "scores"),
    "words": (HEAD + "return ['a'] * len(rows)\n", "scores"),
}
LOADABLE = list(ORDERS)[4:]


@pytest.mark.parametrize("kind", [kind for kind in ORDERS if kind not in LOADABLE])
def test_orders_that_cannot_be_loaded(trace: Path, kind: str) -> None:
    text, words = ORDERS[kind]
    sentence = refused(trace.parent, "simulate", trace, "--order", write(trace.with_name("mine.py"), text))
    assert "mine.py" in sentence
    assert words in sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOADABLE)
def test_orders_that_do_not_work(trace: Path, kind: str) -> None:
    text, words = ORDERS[kind]
    path = write(trace.with_name("mine.py"), text)
    sentence = cohabit("simulate", trace, "--order", path).sentence()
    assert "mine.py" in sentence
    assert words in sentence


# ---- the other verbs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ("bogus", "key=v1,v2"),
        ("policy.order=", "key=v1,v2"),
        ("clutser.nodes=1", "did you mean 'cluster'"),
        ("seed=-1", "seed = -1"),
        ("seed=1,1.5", "seed"),
        ("nodes=many", "cluster.nodes"),
        ("cluster.nodes.x=1", "not a setting"),
    ],
)
def test_wrong_sweeps(scenario: Path, vary: str, words: str) -> None:
    assert words in refused(scenario.parent, "sweep", scenario, "--vary", vary, "--workers", "1")


@pytest.mark.parametrize(
    ("vary", "words"),
    [("order=fcsf", "did you mean 'fcfs'"), ("policy=ce-esy", "did you mean 'ce-easy'"), ("nodes=0", "nodes")],
)
def test_sweeps_over_names_that_do_not_exist(scenario: Path, vary: str, words: str) -> None:
    assert words in cohabit("sweep", scenario, "--vary", vary, "--workers", "1").sentence()


def test_wrong_ways_to_sweep(scenario: Path) -> None:
    assert "--workers 0" in refused(scenario.parent, "sweep", scenario, "--vary", "seed=1", "--workers", "0")


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("bogus", "known: cohabit, ce"),
        ("fcfs+esay", "did you mean 'easy'"),
        ("ce-esy", "did you mean 'ce-easy'"),
        (",", "no policies"),
    ],
)
def test_wrong_comparisons(scenario: Path, policies: str, words: str) -> None:
    assert words in refused(scenario.parent, "compare", scenario, "--policies", policies)


@pytest.mark.parametrize("policies", ["fcfs+sjf+easy", "fcfs+easy+none", "ce,ce"])
def test_comparisons_that_say_a_thing_twice(scenario: Path, policies: str) -> None:
    assert cohabit("compare", scenario, "--policies", policies).sentence()


def test_repeats_must_be_positive(scenario: Path) -> None:
    assert "--repeat 0" in refused(scenario.parent, "compare", scenario, "--repeat", "0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["lubin"], "did you mean 'lublin'"),
        (["lublin", "--alpha", "0.5"], "alpha"),
        (["lublin", "--batch", "x"], "batch"),
        (["lublin", "--requests", "x"], "exact, factor and modal"),
        (["lublin", "--load", "nan"], "load"),
        (["poisson", "--load", "0"], "load"),
        (["poisson", "--jobs", "0"], "jobs"),
        (["poisson", "--nodes", "0"], "nodes"),
        (["poisson", "--sizes", "1000"], "nodes is 128"),
        (["poisson", "--sizes", "a"], "whole numbers"),
        (["mix"], "programs"),
        (["mix", "--programs", "MG=a", "--processes", "4"], "NAME=WEIGHT"),
        (["mix", "--programs", "MG=1", "--processes", "x"], "whole numbers"),
        (["mix", "--programs", "MG=1", "--processes", "4"], "write a .csv file"),
    ],
)
def test_wrong_generators(tmp_path: Path, options: list[str], words: str) -> None:
    assert words in refused(tmp_path, "generate", *options, "-o", tmp_path / "jobs.swf")


@pytest.mark.parametrize(
    "options", [["poisson", "--seed", "-1"], ["poisson", "--median-run-s", "inf"], ["poisson", "--sigma", "inf"]]
)
def test_generators_refuse_impossible_numbers(tmp_path: Path, options: list[str]) -> None:
    refused(tmp_path, "generate", *options, "-o", tmp_path / "jobs.swf")


def test_generated_files_need_a_known_ending_and_a_folder(tmp_path: Path) -> None:
    assert ".swf or .csv" in refused(tmp_path, "generate", "lublin", "-o", tmp_path / "jobs.txt")
    assert "proc" in refused(tmp_path, "generate", "lublin", "-o", "/proc/jobs.swf")


@pytest.mark.parametrize("kind", ["sacct", "gridengine", "lumos", "cobalt", "atlas"])
def test_imports_of_the_wrong_format(trace: Path, kind: str) -> None:
    assert "abc.swf" in refused(trace.parent, "import", kind, trace, "-o", trace.with_name("out.swf"))
    empty = write(trace.with_name("empty.log"), "")
    assert "empty.log" in refused(trace.parent, "import", kind, empty, "-o", trace.with_name("out.swf"))
    assert "no such file" in refused(trace.parent, "import", kind, trace.with_name("absent"), "-o", "out.swf")


def test_unknown_log_formats(trace: Path) -> None:
    assert "did you mean 'sacct'" in refused(trace.parent, "import", "sacc", trace, "-o", trace.with_name("out.swf"))


def test_replay_without_a_journal(trace: Path, finished: Path, tmp_path: Path) -> None:
    assert "no such journal" in refused(trace.parent, "replay", trace.parent)
    assert "no such journal" in refused(trace.parent, "replay", trace.parent / "absent")
    assert "not a journal" in refused(trace.parent, "replay", trace)
    lonely = write(tmp_path / "journal.parquet", (finished / "journal.parquet").read_bytes())
    assert "jobs.parquet" in refused(tmp_path, "replay", lonely)


def test_why_needs_a_run_and_a_job_in_it(trace: Path, finished: Path) -> None:
    assert "'99'" in refused(trace.parent, "why", "99", "--run", finished)
    assert "jobs.parquet" in refused(trace.parent, "why", "1", "--run", trace.parent)
    assert "jobs.parquet" in refused(trace.parent, "why", "1", "--run", trace.parent / "absent")


def test_view_needs_a_run(trace: Path) -> None:
    assert "report.html" in refused(trace.parent, "view", trace.parent)


def test_a_damaged_run_folder(trace: Path) -> None:
    folder = trace.parent / "run"
    folder.mkdir()
    write(folder / "jobs.parquet", EXAMPLE)
    for call in (["why", "1", "--run", folder], ["view", folder]):
        assert "jobs.parquet" in refused(trace.parent, *call)
