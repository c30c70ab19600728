"""How commands of resource managers are started: their environment, their bounds, their words, a job's own script."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cohabit.backend.bounded_process import USUAL, TooMuch, run_bounded, trusted_folders
from cohabit.backend.gridengine import calls as gridengine_calls
from cohabit.backend.gridengine import commands as gridengine_commands
from cohabit.backend.gridengine.submitting import NUMBER as OF_QSUB
from cohabit.backend.slurm import commands
from cohabit.backend.slurm.calls import Calls, environment_of
from cohabit.backend.slurm.submitting import NUMBER, VARIABLES
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.submitting import MOST_BYTES, MOST_OF_ONE, batch_script, number_in, patience_of
from cohabit.model.errors import InputError

HOSTILE = {
    "LD_PRELOAD": "/tmp/x.so", "LD_LIBRARY_PATH": "/tmp", "PYTHONPATH": "/tmp", "SBATCH_PARTITION": "x", "IFS": "x",
    "SQUEUE_FORMAT": "x", "SLURM_CLUSTERS": "x", "SLURM_JWT": "x", "BASH_ENV": "/tmp/x", "TZ": "UTC",
}  # fmt: skip
NAMES = ("--user=bob", "-1", "", "1,2", "1 2", "1\n", "\u0663", "1_", "*", "7_3 9", "1;2", "7/../8")


def test_only_what_leads_to_the_cluster_is_kept() -> None:
    around = HOSTILE | {"PATH": "/tmp:.:rel:/usr/bin", "SLURM_CONF": "/etc/a.conf", "SGE_ROOT": "/a", "SGE_X": "y"}
    found = environment_of("", around)
    assert found == {
        "PATH": ":".join(("/usr/bin", *(one for one in USUAL if one != "/usr/bin"))), "LC_ALL": "C", "TZ": "UTC",
        "SLURM_BITSTR_LEN": "0", "SLURM_CONF": "/etc/a.conf",
    }  # fmt: skip
    assert environment_of("/b.conf", around)["SLURM_CONF"] == "/b.conf"
    assert gridengine_calls.environment_of("", "c", around).keys() == {"PATH", "LC_ALL", "TZ", "SGE_ROOT", "SGE_CELL"}


def test_folders_that_others_can_change_are_not_searched(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    for one in (own, shared, shared / "below"):
        one.mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared / "below")
    listed = ":".join(map(str, (own, shared, shared / "below", tmp_path / "link", tmp_path / "none", "", ".", "own")))
    assert trusted_folders(listed) == [str(own)]
    shared.chmod(0o1777)  # what is in it stays whose it is, but anybody may add to it
    assert trusted_folders(f"{shared}:{shared / 'below'}") == [str(shared / "below")]


def run(script: str, timeout_s: float = 20, most: int = 1000, given: bytes = b"") -> tuple[int, bytes, bytes]:
    words = ("/bin/sh", "-c", script)
    return tuple(asyncio.run(run_bounded(words, given, {"PATH": "/usr/bin:/bin"}, timeout_s, most)))  # type: ignore[return-value]


def test_a_command_ends_within_its_bounds(tmp_path: Path) -> None:
    assert run("cat; echo no >&2; exit 3", given=b"a" * 500) == (3, b"a" * 500, b"no\n")
    assert run("pwd; umask; [ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo leads")[1] == b"/\n0022\nleads\n"
    assert run("exit 0", given=b"a" * 10_000_000)[0] == 0  # it reads nothing
    with pytest.raises(TooMuch):
        run("yes")
    begun_s = time.monotonic()
    with pytest.raises(TimeoutError):
        run(f"sleep 300 & echo $! > {tmp_path}/child; wait", 0.5)
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    while child.exists() and "Z" not in (child / "stat").read_text().rpartition(")")[2].split()[0]:
        assert time.monotonic() - begun_s < 30, "the child lives on"
        time.sleep(0.05)
    begun_s = time.monotonic()
    assert run("setsid sleep 5 & echo said", 60)[1] == b"said\n"
    assert time.monotonic() - begun_s < 4  # it holds the pipe, and nobody waits for it


def test_calls_say_what_went_wrong() -> None:
    calls = Calls(timeout_s=0.3)
    with pytest.raises(ManagerAway, match=r"within 0.3 s"):
        asyncio.run(calls(("sleep", "30")))
    with pytest.raises(ManagerAway, match="cannot be run"):
        asyncio.run(calls(("no-such-command",)))
    with pytest.raises(ManagerRefused, match="cannot be called this way"):
        asyncio.run(calls(("true", "a\0b")))


@pytest.mark.parametrize(
    ("printed", "error"),
    [
        # after a kill of slurmctld, `scontrol release` printed this while the next one came up (22.05)
        ("Unexpected message received\nslurm_suspend error: Unexpected message received", ManagerAway),
        ("slurm_update error: Zero Bytes were transmitted or received", ManagerAway),
        ("slurm_update error: Invalid job id specified", ManagerRefused),
    ],
)
def test_no_answer_is_told_from_a_refusal(printed: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Calls().judged(("scontrol", "release", "1"), 1, "", printed)


def test_a_command_gets_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in HOSTILE.items():
        monkeypatch.setenv(key, value)
    said = asyncio.run(Calls("/a.conf")(("env",)))
    assert {line.partition("=")[0] for line in said.splitlines()} == {
        "PATH", "LC_ALL", "TZ", "SLURM_BITSTR_LEN", "SLURM_CONF",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_option_hides_behind_the_name_of_a_job(name: str) -> None:
    one = (
        commands.show_script, commands.show_job, commands.hold, commands.requeue_held,
        commands.cancel, lambda name: commands.release([name]), lambda name: commands.mark(["1", name], "x"),
        lambda name: commands.accounting([name]), lambda name: commands.place(name, ["n0"], 1, "x"),
        lambda name: commands.change_limit(name, 60),
    )  # fmt: skip
    other = (
        gridengine_commands.describe_job, gridengine_commands.accounting, gridengine_commands.hold,
        gridengine_commands.release, gridengine_commands.suspend, gridengine_commands.cancel,
        lambda name: gridengine_commands.note(name, {"a": "b"}), lambda name: gridengine_commands.request(name, {}),
        lambda name: gridengine_commands.place(name, [], {}, {}),
        lambda name: gridengine_commands.unplace(name, "q", {}, {}),
    )  # fmt: skip
    for make in (*one, *other):
        with pytest.raises(ManagerRefused, match="not the name of a job"):
            make(name)


def test_a_word_cannot_become_another_call() -> None:
    line = commands.line_of(commands.place("7", ["n0", "n1"], 2, "cohabit:run:1:1-0:1:1@a"))
    assert line.startswith("update JobId=7 ReqNodeList=n0,n1 ")
    for text in ("a\nshutdown", "a b", "a'b", 'a"b', "a\\b"):
        with pytest.raises(ManagerRefused, match="would change"):
            commands.line_of(commands.place("7", ["n0"], 2, text))


@pytest.mark.parametrize(
    ("said", "form", "number"),
    [("17\n", NUMBER, "17"), ("17;alpha\n", NUMBER, "17"), ("17", OF_QSUB, "17"), ("17.1-4:1", OF_QSUB, "17")],
)  # fmt: skip
def test_the_number_of_a_job(said: str, form: object, number: str) -> None:
    assert number_in(said, form, "sbatch") == number  # type: ignore[arg-type]


@pytest.mark.parametrize("said", ["--user=bob", "", "1 2", "17;a b", "17\n18", "\u0661\u0667", "17.*"])
def test_what_is_no_number_is_refused(said: str) -> None:
    for form in (NUMBER, OF_QSUB):
        with pytest.raises(ManagerRefused, match="not the number of a job"):
            number_in(said, form, "sbatch")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_script_gives_its_environment_to_the_command(shell: str, tmp_path: Path) -> None:
    """Whatever is in it; what the manager set stays."""
    asked = {
        "PATH": "/usr/bin:/bin", "MINE": "it's\n#SBATCH --nodes=7\n$(id) `id` \\ \"", "SLURM_JOB_ID": "1",
        "PWD": "/nowhere", "SLURM_NEW": "kept", "IFS": "ab",
        "a.b": "dotted", "BASH_FUNC_f%%": "() { :; }", "UID": "5", "OPTIND": "x",
        "PPID": "1", "EMPTY": "", "BASH_ENV": "/nowhere",
    }  # fmt: skip
    show = [sys.executable, "-c", "import os, sys; sys.stdout.write(repr(dict(os.environ)))"]
    (tmp_path / "script").write_text(batch_script("#!", asked, VARIABLES.kept, "export LAST=1\n", show))
    done = subprocess.run(
        [shell, *(["--posix"] if shell == "bash" else []), tmp_path / "script"], env={"SLURM_JOB_ID": "77"}, cwd="/",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = eval(done.stdout)
    wanted = asked | {"SLURM_JOB_ID": "77", "LAST": "1", "PWD": "/"}
    assert {key: found.get(key) for key in wanted} == wanted
    assert not done.stderr


def test_an_environment_that_no_process_can_have_is_refused() -> None:
    for environment, said in (
        ({"A": "\0"}, "cannot be a variable"), ({"A=B": "x"}, "cannot be a variable"),
        ({"": "x"}, "cannot be a variable"), ({"A": "\ud800"}, "not text"), ({"A": "x" * MOST_OF_ONE}, "of at most"),
        ({f"A{one}": "x" * (MOST_OF_ONE - 10) for one in range(9)}, f"of at most {MOST_BYTES}"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            batch_script("#!", environment, VARIABLES.kept, "", ["true"])


def test_the_largest_environment_reaches_the_command(tmp_path: Path) -> None:
    most = {f"A{one}": "'" * 130_000 for one in range(8)}
    (tmp_path / "script").write_text(batch_script("#!", most, VARIABLES.kept, "", ["/bin/true"]))
    assert subprocess.run(["sh", tmp_path / "script"], env={}, check=False).returncode == 0


def test_only_a_number_goes_before_the_script() -> None:
    name = "COHABIT_THRESHOLD_PATIENCE_S"
    assert patience_of({name: "12.5", "A": "b"}) == {name: "12.5"}
    assert patience_of({name: "5 -v A=b"}) == patience_of({}) == {}


def test_watchdogs_start_without_what_is_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that a PYTHONPATH or the folder would bring is not taken."""
    from cohabit.backend.steered.watchdog import WatchdogCommand, start_watchdog

    (tmp_path / "planted_watchdog.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    monkeypatch.chdir(tmp_path)
    start_watchdog(tmp_path / "lease", WatchdogCommand("planted_watchdog"))
    deadline = time.monotonic() + 30
    while not (log := (tmp_path / "watchdog.log").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "No module named" in log
    assert "nowhere.so" not in log
    assert not (tmp_path / "ran").exists()
    os.waitpid(-1, os.WNOHANG)
