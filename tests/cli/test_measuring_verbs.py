"""`cohabit exercise` and `cohabit measure pairs`: real programs, stopped, killed, gone on with; refusals."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_calls import COMMAND, Answer, cohabit, program

from cohabit.agent.launch.process import Request, launch

TRIES = 3  # where a clock is asserted on
SLEEPS = """repeats = 2
sources = ["procfs"]
[[program]]
name = "nap"
command = ["sleep", "0.4"]
[[program]]
name = "doze"
command = ["sleep", "0.3"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "programs.toml"
    path.write_text(text)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def quiet(answer: Answer) -> list[str]:
    """What was said, without the remark on a busy machine."""
    return [line for line in answer.err.splitlines() if "machine is busy" not in line]


# ---- exercise ----


def test_exercises_are_listed() -> None:
    listed = cohabit("exercise", "--list", "--json").document["exercises"]
    assert len(listed) >= 11
    assert {"name", "stresses", "unit", "size_mb"} == set(listed[0])
    assert "graph-walk" in cohabit("exercise", "--list").out


def test_an_exercise_reports_what_it_did() -> None:
    document = cohabit("exercise", "sort", "--work", "2", "--size", "1", "--json").document
    assert (document["name"], document["rounds"], document["unit"], document["size_mb"]) == ("sort", 2, "numbers", 1.0)
    assert document["operations"] > 0
    assert document["rate_per_s"] > 0
    shown = cohabit("exercise", "sort", "--seconds", "0.1", "--size", "1")
    assert "numbers/s" in shown.out
    assert "--work" in shown.out


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (["nonsense"], "'nonsense'"),
        ([], "no exercise is named"),
        (["sort", "--work", "0"], "--work 0"),
        (["sort", "--seconds", "0"], "--seconds 0"),
        (["sort", "--seconds", "nan"], "--seconds nan"),
        (["sort", "--seconds", "1", "--work", "1"], "exclude each other"),
        (["sort", "--size", "-1"], "--size -1"),
        (["sort", "--size", "1e30"], "--size 1e+30"),
        (["stream", "--size", "1000000", "--work", "1"], "stream could not run"),
    ],
)
def test_a_wrong_exercise_is_one_sentence(call: list[str], word: str) -> None:
    assert word in cohabit("exercise", *call).sentence()


# ---- measure pairs ----


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, Path]:
    """Two sleeping programs: nothing to fight for."""
    folder = tmp_path_factory.mktemp("measured")
    out = folder / "pairs.csv"
    return cohabit("measure", "pairs", write(folder, SLEEPS), "--out", out, "--json"), out


def test_a_row_for_every_ordered_pair(measured: tuple[Answer, Path]) -> None:
    answer, out = measured
    assert answer.code == 0, answer.err
    found = rows(out)
    assert [(row["app"], row["other"]) for row in found] == [
        ("nap", "nap"), ("nap", "doze"), ("doze", "nap"), ("doze", "doze"),
    ]  # fmt: skip
    assert list(found[0])[:4] == ["app", "other", "target", "app_time_s"]
    for row in found:
        alone, together = float(row["app_time_s"]), float(row["meta.pair_time_s"])
        assert float(row["target"]) == pytest.approx(100 * (together - alone) / alone, abs=1e-4)
        assert float(row["primary.solo_time_mean"]) == alone
        assert row["meta.solo_repeats"] == "2"
    assert float(found[0]["app_time_s"]) == pytest.approx(0.4, abs=0.25)
    assert int(found[1]["meta.restarts"]) >= 1  # doze ends before nap does


def test_the_profile_of_each_side_is_its_own(measured: tuple[Answer, Path]) -> None:
    by_pair = {(row["app"], row["other"]): row for row in rows(measured[1])}
    one, other = by_pair["nap", "doze"], by_pair["doze", "nap"]
    mine = [key for key in one if key.startswith("primary.")]
    assert mine
    for key in mine:
        assert one[key] == other[key.replace("primary.", "other.")]


def test_the_sidecar_names_sources_and_machine_but_not_the_host(measured: tuple[Answer, Path]) -> None:
    out = measured[1]
    text = out.with_name("pairs.csv.meta.json").read_text()
    meta = json.loads(text)
    assert meta["schema_version"] == 1
    columns = [key for key in rows(out)[0] if key not in ("app", "other") and not key.startswith("meta.")]
    assert set(meta["sources"]) == set(columns)
    assert set(meta["sources"].values()) == {"clock", "procfs"}
    assert {"cpu", "cores", "kernel", "python", "cohabit", "caches_kib"} <= set(meta["environment"])
    assert [one["name"] for one in meta["programs"]] == ["nap", "doze"]
    assert os.uname().nodename not in text
    assert str(out.parent) not in text


def test_the_document(measured: tuple[Answer, Path]) -> None:
    answer, out = measured
    document = answer.document
    assert (document["complete"], document["rows"], document["failed"]) == (True, 4, [])
    assert set(document["noise_percent"]) == {"nap", "doze"}
    assert document["degradation_percent"]["nap"]["doze"] == pytest.approx(float(rows(out)[1]["target"]), abs=0.01)
    assert sorted(path.name for path in out.parent.iterdir()) == ["pairs.csv", "pairs.csv.meta.json", "programs.toml"]


SEEN = """import os, sys, time
open(sys.argv[1], "a").write(f"{sorted(os.sched_getaffinity(0))}\\n")
time.sleep(0.3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["shared", "split"])
def test_cores_are_shared_or_split(tmp_path: Path, how: str) -> None:
    every, seen = sorted(os.sched_getaffinity(0)), tmp_path / "seen"
    if len(every) < 2:
        pytest.skip("one core cannot be split")
    command = json.dumps([sys.executable, "-I", "-S", "-c", SEEN, str(seen)])
    text = f'cores = "{how}"\nrepeats = 1\nsources = []\n[[program]]\nname = "a"\ncommand = {command}\n'
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", tmp_path / "pairs.csv")
    assert answer.code == 0, answer.err
    assert "slower beside" in answer.out
    sets = {tuple(json.loads(line)) for line in seen.read_text().splitlines()}
    if how == "shared":
        assert sets == {tuple(every)}
    else:
        assert len(sets) == 2
        assert sorted(cpu for one in sets for cpu in one) == every


def has_for_itself(busy: list[str], core: int) -> bool:
    """Whether a second of work takes about a second there."""
    with launch(Request(tuple(busy), cores=(core,))) as running:
        running.release()
        ended = running.wait(5.0)
    return ended is not None and ended.run_s < 1.15


@pytest.mark.timing
def test_time_sharing_doubles_the_time(tmp_path: Path) -> None:
    """Two busy programs on one core, if nobody else was on it before and after: a disturbed try does not count."""
    code = "import time\nwhile time.process_time() < 1.0: pass"
    busy = [sys.executable, "-I", "-S", "-c", code]
    for number in range(TRIES):
        core = next((one for one in sorted(os.sched_getaffinity(0)) if has_for_itself(busy, one)), None)
        if core is None:
            continue
        text = f'cores = "shared"\nuse = [{core}]\nrepeats = 1\nsources = ["procfs"]\n[[program]]\nname = "busy"\n'
        path = write(tmp_path, text + f"command = {json.dumps(busy)}\n")
        answer = cohabit("measure", "pairs", path, "--out", tmp_path / f"pairs{number}.csv", "--json")
        if has_for_itself(busy, core):
            assert 60 < answer.document["degradation_percent"]["busy"]["busy"] < 140
            return
    pytest.skip("the cores are busy with something else")


@pytest.mark.slow
def test_imported_counters_take_part(tmp_path: Path) -> None:
    text = 'counters = "counters.csv"\n' + SLEEPS.replace("repeats = 2", "repeats = 1")
    (tmp_path / "counters.csv").write_text("program,seconds,instructions,cycles\nnap,1,10,20\ndoze,1,30,20\n")
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", tmp_path / "pairs.csv", "--json")
    assert answer.document["counters"]["ipc"] == "imported"
    by_pair = {(row["app"], row["other"]): row for row in rows(tmp_path / "pairs.csv")}
    assert float(by_pair["nap", "doze"]["primary.ipc_mean"]) == 0.5
    assert float(by_pair["nap", "doze"]["other.ipc_mean"]) == 1.5
    (tmp_path / "counters.csv").write_text("program,seconds,instructions\nnap,1,10\n")
    answer = cohabit("measure", "pairs", tmp_path / "programs.toml", "--out", tmp_path / "pairs.csv")
    assert "no rows of 'doze'" in answer.sentence()


@pytest.mark.slow
def test_a_neighbour_may_run_another_command(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = f"""repeats = 1
sources = []
[[program]]
name = "a"
command = ["sleep", "2"]
beside = {json.dumps(["sh", "-c", f"echo beside >> {seen}; sleep 60"])}
"""
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", tmp_path / "pairs.csv")
    assert answer.code == 0, answer.err
    assert seen.read_text() == "beside\n"
    assert rows(tmp_path / "pairs.csv")[0]["meta.restarts"] == "0"


@pytest.mark.slow
def test_noise_is_told(tmp_path: Path) -> None:
    """A program whose time grows with every run, by a file it keeps."""
    code = "import os, sys, time; p = sys.argv[1]; n = os.path.getsize(p); open(p, 'a').write('x'); time.sleep(0.1 * n)"
    (tmp_path / "count").write_text("x")
    command = json.dumps([sys.executable, "-I", "-S", "-c", code, str(tmp_path / "count")])
    path = write(tmp_path, f'repeats = 3\nsources = ["procfs"]\n[[program]]\nname = "growing"\ncommand = {command}\n')
    answer = cohabit("measure", "pairs", path, "--out", tmp_path / "pairs.csv", "--json")
    assert answer.code == 0
    assert answer.document["noisy"] == ["growing"]
    assert any("growing varies by" in line for line in quiet(answer))


@pytest.mark.slow
def test_a_pair_that_fails_is_told_and_can_be_tried_again(tmp_path: Path) -> None:
    """`touchy` fails where the other's mark is there: alone it works."""
    mark = tmp_path / "mark"
    other = f"touch {mark}; sleep 0.4; rm -f {mark}"
    touchy = f"for n in $(seq 60); do test ! -e {mark} || exit 1; sleep 0.02; done"  # longer than the other once more
    text = "repeats = 1\nsources = []\n"
    for name, command in (("other", other), ("touchy", touchy)):
        text += f'[[program]]\nname = "{name}"\ncommand = {json.dumps(["sh", "-c", command])}\n'
    out = tmp_path / "pairs.csv"
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", out, "--json")
    assert answer.code == 1
    document = answer.document
    assert document["complete"] is False
    assert {(one["app"], one["other"]) for one in document["failed"]} >= {("touchy", "other")}
    assert "touchy failed beside other (status 1)" in answer.err
    assert ("touchy", "other") not in [(row["app"], row["other"]) for row in rows(out)]
    assert out.with_name("pairs.csv.progress").exists()


@pytest.mark.slow
def test_an_empty_list_of_sources_measures_times_only(tmp_path: Path) -> None:
    text = SLEEPS.replace('["procfs"]', "[]").replace("repeats = 2", "repeats = 1")
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", tmp_path / "pairs.csv", "--json")
    assert answer.document["counters"] == {"solo_time": "clock"}


# ---- stopped in the middle ----


def begin(path: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "measure", "pairs", str(path), "--out", str(out), "--json"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def lines_of(out: Path) -> list[dict[str, Any]]:
    path = out.with_name(out.name + ".progress")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_lines(process: subprocess.Popen[str], out: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len(lines_of(out)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def descendants_sleeping() -> list[str]:
    """Command lines of the sleepers of these tests that are still there."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] in [[b"sleep", os.fsencode(nap)] for nap in NAPS]:
            found.append(str(place))
    return found


NAPS = (f"0.4{os.getpid()}", f"0.3{os.getpid()}")  # nobody else sleeps so long
LONGER = SLEEPS.replace("0.4", NAPS[0]).replace("0.3", NAPS[1])


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    path, out = write(tmp_path, LONGER), tmp_path / "pairs.csv"
    process = begin(path, out)
    wait_for_lines(process, out, 4)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = lines_of(out)
    assert not out.exists()
    end = time.monotonic() + 60
    while descendants_sleeping():
        assert time.monotonic() < end, "programs outlive the measurement"
        time.sleep(0.05)
    with out.with_name("pairs.csv.progress").open("a") as stream:
        stream.write('{"key": ["pair", "do')  # the line it was writing
    answer = cohabit("measure", "pairs", path, "--out", out, "--json")
    assert answer.code == 0, answer.err
    assert f"{len(kept) - 1} of them finished earlier" in answer.err
    first_alone = next(line for line in kept if line.get("key") == ["alone", "nap", "0"])
    mean, std = (float(rows(out)[0][f"primary.solo_time_{stat}"]) for stat in ("mean", "std"))
    runs = (mean - std, mean + std)  # of two runs, the population's deviation
    assert any(value == pytest.approx(first_alone["run_s"], rel=1e-6) for value in runs)
    assert len(rows(out)) == 4
    assert not out.with_name("pairs.csv.progress").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path: Path) -> None:
    path, out = write(tmp_path, LONGER), tmp_path / "pairs.csv"
    process = begin(path, out)
    wait_for_lines(process, out, 3)
    os.killpg(process.pid, signal.SIGINT)
    text, err = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(text)
    assert document["complete"] is False
    assert document["runs"] == len(lines_of(out)) - 1 >= 2
    assert f"{document['runs']} of 8 runs are finished and kept" in err
    assert "Traceback" not in err
    assert not descendants_sleeping()


@pytest.mark.slow
def test_other_programs_do_not_mix_with_what_was_measured(tmp_path: Path) -> None:
    path, out = write(tmp_path, LONGER), tmp_path / "pairs.csv"
    process = begin(path, out)
    wait_for_lines(process, out, 2)
    busy = cohabit("measure", "pairs", path, "--out", out).sentence()
    assert "another measurement is writing it" in busy
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = out.with_name("pairs.csv.progress").read_bytes()
    write(tmp_path, LONGER.replace(NAPS[1], "0.2"))
    assert "begun with other programs" in cohabit("measure", "pairs", path, "--out", out).sentence()
    assert out.with_name("pairs.csv.progress").read_bytes() == before
    write(tmp_path, "# a remark changes nothing\n" + LONGER)
    assert cohabit("measure", "pairs", path, "--out", out, "--repeats", "1").code == 0


def test_the_line_that_was_being_written_is_dropped_for_good(tmp_path: Path) -> None:
    from cohabit.app.measure.progress import Progress

    def opened() -> Progress:
        return Progress(tmp_path / "pairs.csv", "plan", "machine")

    for number in range(3):
        progress = opened()
        assert list(progress.done.values()) == [{"run_s": earlier} for earlier in range(number)]
        progress.add(("alone", "a", str(number)), {"run_s": number})
        progress.close()
        with progress.path.open("ab") as stream:
            stream.write(b'{"key": ["alone", "a", "torn')
    assert len(opened().done) == 3


# ---- refusals ----

ONE = '[[program]]\nname = "a"\ncommand = ["true"]\n'


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "names no programs"),
        ("nonsense = 1\n" + ONE, "'nonsense'"),
        (ONE + 'comand = ["x"]\n', "did you mean 'command'"),
        (ONE + ONE, "'a' occurs 2 times"),
        (ONE.replace("true", "no-such-program-anywhere"), "no-such-program-anywhere"),
        (ONE.replace("true", "false"), "'a' fails alone (status 1)"),
        (ONE.replace('["true"]', "[]"), "empty"),
        (ONE.replace('["true"]', '"true"'), "command"),
        (ONE.replace('"a"', '""'), "name ''"),
        (ONE.replace('"a"', '"a,b"'), "'a,b'"),
        ('cores = "mixed"\n' + ONE, "'mixed'"),
        ("use = [4096]\n" + ONE, "CPU 4096"),
        ('sources = ["nonsense"]\n' + ONE, "'nonsense'"),
        ("repeats = 0\n" + ONE, "repeats"),
        (ONE + 'cwd = "nowhere"\n', "folder of 'a'"),
        ("limit_s = 0.2\nsources = []\n" + ONE.replace('"true"', '"sleep", "5"'), "longer than 0.2 s"),
        ("[[program]\n", "not valid TOML"),
    ],
)
def test_a_wrong_file_of_programs_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    out = tmp_path / "pairs.csv"
    answer = program("measure", "pairs", write(tmp_path, text), "--out", out)
    assert word in answer.sentence()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["programs.toml"]


def test_a_missing_file_of_programs(tmp_path: Path) -> None:
    assert "no such file" in cohabit("measure", "pairs", tmp_path / "x.toml", "--out", tmp_path / "y.csv").sentence()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    path = write(tmp_path, SLEEPS)
    for out in (tmp_path, Path("/proc/nowhere/pairs.csv"), path / "pairs.csv"):
        assert "cannot be written" in cohabit("measure", "pairs", path, "--out", out).sentence()


def test_the_example_is_a_plan_that_works_here() -> None:
    from cohabit.app.measure.programs import read_plan
    from cohabit.exercise.catalogue import EXERCISES

    plan = read_plan(Path(__file__).parents[2] / "examples" / "pairs" / "programs.toml")
    assert len(plan.program) >= 8
    for one in plan.program:
        assert one.command[:2] == one.beside[:2] == ["cohabit", "exercise"]
        assert one.command[2] == one.beside[2] == one.name
        assert one.name in EXERCISES


# ---- programs of others ----


@pytest.mark.system
def test_any_command_can_take_part(tmp_path: Path) -> None:
    if shutil.which("stress-ng") is None:
        pytest.skip("stress-ng is not installed (apt-get install stress-ng)")
    text = """repeats = 1
[[program]]
name = "exercise"
command = ["cohabit", "exercise", "sort", "--work", "10", "--size", "1"]
[[program]]
name = "stressor"
command = ["stress-ng", "--cpu", "1", "--cpu-ops", "30"]
"""
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", tmp_path / "pairs.csv", "--json")
    assert answer.code == 0, answer.err
    assert answer.document["rows"] == 4
    assert "task_clock" in answer.document["counters"]


@pytest.mark.system
def test_simulated_counters_are_columns_with_their_source(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed (apt-get install valgrind)")
    loop = "i=0; while [ $i -lt {} ]; do i=$((i+1)); done"
    text = 'repeats = 1\nsources = ["valgrind"]\n'
    for name, count in (("short", 20000), ("long", 40000)):
        text += f'[[program]]\nname = "{name}"\ncommand = {json.dumps(["sh", "-c", loop.format(count)])}\n'
        text += f"sample = {json.dumps(['sh', '-c', loop.format(2000)])}\n"
    out = tmp_path / "pairs.csv"
    answer = cohabit("measure", "pairs", write(tmp_path, text), "--out", out, "--json")
    assert answer.code == 0, answer.err
    assert answer.document["counters"]["misses_per_instruction"] == "valgrind"
    columns = [key for key in rows(out)[0] if key.startswith("primary.instructions")]
    assert columns == ["primary.instructions_mean"]
