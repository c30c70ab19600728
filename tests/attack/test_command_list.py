"""A controller in the hands of an attacker asks the launcher for commands of a resource manager: what is run, as whom,
and what is refused. The launcher is a real one with root's rights; its programs write down how they were called."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cohabit.backend.steered.fuses import read_fuses
from cohabit.backend.steered.lease import fuse_file, read_lease, switch_file, write_beside, write_lease
from cohabit.launcher import gridengine_words, slurm_words, wire
from cohabit.launcher.process import begin
from tests.attack.accounts import Account, act_as, shell

SERVICE = 61998  # a uid that no account has
PATIENCE_S = 30
RECORD = """#!/usr/bin/env python3
import json, os, sys
given = sys.stdin.read()
said = {"uid": os.getresuid(), "groups": os.getgroups(), "words": sys.argv[1:], "env": dict(os.environ), "given": given,
        "cwd": os.getcwd(), "session": os.getsid(0) == os.getpid()}
with open(FILE, "a") as stream:
    stream.write(json.dumps(said) + "\\n")
if "hang" in given:
    os.system("setsid sleep 300 & sleep 300")
print("x" * (20 << 20) if sys.argv[1:] == ["show", "config"] else "77")
"""
SCRIPT = "#!/bin/sh\ntrue\n"
SBATCH = ["sbatch", "--parsable", "--hold", "--time=5", "--chdir=/", "--ntasks=1", "--no-requeue"]
QSUB = ["qsub", "-terse", "-C", "", "-S", "/bin/sh", "-h", "-wd", "/", "-ac", "cohabit=cohabit:held", "-r", "n"]


class Asking:
    """The other end of a channel to a launcher."""

    def __init__(self, end: socket.socket) -> None:
        self._number, self.end = 0, end

    def command(self, *words: str, given: str = "", uid: int = -1, **others: Any) -> Any:
        """The answer, or a text that says why not."""
        fields = {"gid": -1, "groups": [], "patience_s": 10, "threshold_patience": "", **others}
        return self.ask("command", words=list(words), given=given, uid=uid, **fields)

    def ask(self, op: str, **fields: Any) -> Any:
        self._number += 1
        wire.send(self.end, {"id": self._number, "op": op, **fields})
        while (found := wire.receive(self.end)) is not None:
            message, descriptors = found
            if message.get("id") == self._number:
                if descriptors and message["ok"] is True:
                    return descriptors[0]
                if descriptors:
                    with open(descriptors[0], "rb") as stream:
                        stream.seek(0)
                        return message["ok"] | {"out": stream.read().decode()}
                return message.get("ok", message.get("error"))
        raise AssertionError("the launcher has ended")


class Captured(Asking):
    """The controller's end of a channel to a launcher that runs commands."""

    def __init__(self, folder: Path, word: str) -> None:
        self.kept = folder / "kept"
        self.kept.touch()
        self.kept.chmod(0o666)
        programs = slurm_words.PROGRAMS if word == "slurm" else gridengine_words.PROGRAMS
        for name in programs:
            (folder / name).write_text(RECORD.replace("FILE", repr(str(self.kept))))
            (folder / name).chmod(0o755)
        environment = {"PATH": "/usr/bin:/bin", "LED": "to the cluster"}
        self.begun = begin({
            "place": str(folder / "place"), "own": [SERVICE, SERVICE], "strict": True, "runs": False, "managers": {
                "word": word, "programs": {name: str(folder / name) for name in programs}, "environment": environment,
                "submission": environment | {"FOR": "a submission"},
            }})  # fmt: skip
        super().__init__(self.begun.end)

    def ran(self) -> list[dict[str, Any]]:
        """Everything that was run."""
        return [json.loads(line) for line in self.kept.read_text().splitlines()]


@pytest.fixture
def captured(folder: Path, request: pytest.FixtureRequest) -> Iterator[Captured]:
    one = Captured(folder, getattr(request, "param", "slurm"))
    yield one
    one.begun.end.close()
    one.begun.process.wait(PATIENCE_S)
    assert (folder / "place" / "launcher" / "log").read_text() == "", "no request surprises it"


REFUSED = [
    ["scancel", "--user=cohabit-bob"], ["scancel", "-u", "cohabit-bob"], ["scancel", "1", "2"], ["scancel", "1_[1-9]"],
    ["scancel", "--", "1"], ["scancel"], ["scontrol", "shutdown"], ["scontrol", "reconfigure"], ["scontrol"],
    ["scontrol", "update", "NodeName=n0", "State=DOWN"], ["scontrol", "update", "JobId=1", "NodeName=n0"],
    ["scontrol", "update", "State=DOWN", "NodeName=n0", "JobId=1"], ["scontrol", "update", "JobId=1", "UserID=0"],
    ["scontrol", "update", "JobId=1", "AdminComment=not ours"], ["scontrol", "update", "JobId=1", "JobId=2"],
    ["scontrol", "update", "JobId=1", "ReqNodeList=n0 State=DOWN"], ["scontrol", "update", "JobId=ALL", "NumCPUs=1"],
    ["scontrol", "--uid=0", "show", "config"], ["scontrol", "show", "config", "--json"],
    ["scontrol", "show", "hostnames"],
    ["scontrol", "token", "username=root"], ["scontrol", "write", "batch_script", "1", "/etc/cron.d/x"],
    ["scontrol", "release", "1,--help"], ["scontrol", "hold", "name=x"], ["scontrol", "requeue", "1"],
    ["squeue", "--all", "--states=all", "--json", "--clusters=x"], ["squeue", "--all", "--states=all", "--json=/tmp/x"],
    ["sacct", "--jobs=1"], ["/bin/sh", "-c", "id"], ["sh", "-c", "id"], ["../../bin/sh"], [""], [],
    ["srun", "id"], ["sacctmgr", "add", "user", "x"],
]  # fmt: skip


def test_what_is_not_on_the_list_is_not_run(captured: Captured) -> None:
    for words in REFUSED:
        said = captured.command(*words)
        assert isinstance(said, str), words
        assert "is not on the list" in said or "is not a command that is run here" in said, (words, said)
    for line in ("shutdown", "update NodeName=n0 State=DOWN", "update JobId=1 NumCPUs=1\nshutdown", "", "\n", "!sh",
                 "update JobId=1\tNodeName=n0", "update JobId=1 NumCPUs=1\rshutdown", "show config",
                 "update JobId=1 NumCPUs=1\x0bshutdown"):  # fmt: skip
        assert "is not on the list" in captured.command("scontrol", "--quiet", given=f"{line}\n"), line
    assert "is not on the list" in captured.command("scontrol", "--quiet", given="update JobId=1 NumCPUs=1\nshutdown")
    assert "is not on the list" in captured.command("scancel", "1", given="more")
    assert "is not run as another user" in captured.command("scancel", "1", uid=0)
    assert captured.ran() == []


def test_a_command_of_ours_has_a_clean_environment_and_bounds(captured: Captured) -> None:
    assert captured.command("scancel", "12") == {"code": 0, "err": "", "out": "77\n"}
    lines = "update JobId=1 NumCPUs=2\nupdate JobId=2_3 NumCPUs=2\n"
    assert captured.command("scontrol", "--quiet", given=lines)["code"] == 0
    first, second = captured.ran()
    assert (first["uid"], first["words"], first["cwd"], first["session"]) == ([0, 0, 0], ["12"], "/", True)
    assert {"PATH": "/usr/bin:/bin", "LED": "to the cluster"}.items() <= first["env"].items()
    assert first["env"].keys() <= {"PATH", "LED", "LC_CTYPE"}  # the last is Python's own
    assert second["given"] == lines
    assert len(captured.command("scontrol", "show", "config")["out"]) == (20 << 20) + 1  # more than a message has


def test_submissions_run_as_ordinary_accounts_only(captured: Captured, ann: Account) -> None:
    for uid in (0, 1, 33, SERVICE, -1):
        said = captured.command(*SBATCH, given=SCRIPT, uid=uid)
        assert "refused" in said or "of the service itself" in said or "names its owner" in said, (uid, said)
    assert "is not in group 0" in captured.command(*SBATCH, given=SCRIPT, uid=ann.uid, groups=[0])
    for more in ("--uid=0", "--gid=0", "--wrap=id", "--export=ALL", "--get-user-env", "--nice=-9", "/etc/shadow",
                 "--comment=x", "-p", "--time=5", "--wait", "--nodes", "--exclusive=user", "--requeue=1"):  # fmt: skip
        assert "is not on the list" in captured.command(*SBATCH, more, given=SCRIPT, uid=ann.uid), more
    assert "is not on the list" in captured.command("sbatch", "--parsable", "--time=5", given=SCRIPT, uid=ann.uid)
    said = captured.command(*SBATCH, given=SCRIPT, uid=ann.uid, threshold_patience="1\nLD_PRELOAD=x")
    assert "cannot be used" in said
    assert captured.ran() == []
    assert captured.command(*SBATCH, given=SCRIPT, uid=ann.uid, threshold_patience="2.5")["out"] == "77\n"
    (ran,) = captured.ran()
    assert (ran["uid"], 0 in ran["groups"], ran["given"]) == ([ann.uid] * 3, False, SCRIPT)
    expected = {"HOME": str(ann.home), "USER": ann.name, "FOR": "a submission", "COHABIT_THRESHOLD_PATIENCE_S": "2.5"}
    assert expected.items() <= ran["env"].items()


def test_what_an_account_makes_of_a_submission_is_bounded(captured: Captured, ann: Account) -> None:
    began = time.monotonic()
    said = captured.command(*SBATCH, given="hang", uid=ann.uid, patience_s=2)
    assert (said, time.monotonic() - began < 20) == ("it did not end in time", True)
    left = [one for one in Path("/proc").iterdir() if one.name.isdigit() and _is_sleep_of(one, ann.uid)]
    assert left == [], "all it started is dead"


def _is_sleep_of(process: Path, uid: int) -> bool:
    try:
        return process.stat().st_uid == uid and b"sleep\x00300" in (process / "cmdline").read_bytes()
    except OSError:
        return False


GRID_ENGINE = [
    ["qdel", "-u", "cohabit-bob"], ["qdel", "*"], ["qdel", "1-9"], ["qdel"], ["qconf", "-ke", "all"], ["qconf", "-km"],
    ["qconf", "-am", "cohabit-bob"], ["qconf", "-sq", "-mq"], ["qmod", "-d", "all.q"], ["qmod", "-sj", "*"],
    ["qalter", "-q", "all.q", "-u", "*"], ["qalter", "-P", "x", "1"], ["qalter", "-q", "-l", "1"], ["qalter", "1"],
    ["qalter", "-h", "n", "1"], ["qalter", "-ac", "LD_PRELOAD=x", "1"], ["qstat", "-f"], ["qacct", "-j", "-f"],
    ["qalter", "-l", "h_rt=1", "-l", "h_rt=2", "1"], ["qrsh", "id"], ["qlogin"], ["qhost", "-h"],
]  # fmt: skip


@pytest.mark.parametrize("captured", ["gridengine"], indirect=True)
def test_grid_engine_has_a_list_of_its_own(captured: Captured, ann: Account) -> None:
    for words in GRID_ENGINE:
        said = captured.command(*words)
        assert isinstance(said, str), words
        assert "is not on the list" in said or "is not a command that is run here" in said, (words, said)
    for more in (["-V"], ["-u", "x"], ["-v", "LD_PRELOAD=x"], ["-now", "y"], ["-N", "-V"], ["-r", "y"], ["/etc/shadow"],
                 ["-pe", "mpi", "-V"], ["-P", "-V"], ["-clear", "y"]):  # fmt: skip
        assert "is not on the list" in captured.command(*QSUB, *more, given=SCRIPT, uid=ann.uid), more
    assert "refused" in captured.command(*QSUB, given=SCRIPT, uid=0)
    assert captured.ran() == []
    assert captured.command(*QSUB, "-pe", "mpi", "4", given=SCRIPT, uid=ann.uid)["code"] == 0
    assert captured.command("qdel", "4.2")["code"] == 0
    assert [one["uid"] for one in captured.ran()] == [[ann.uid] * 3, [0, 0, 0]]


def test_the_watchdog_takes_no_word_of_the_controller(captured: Captured, folder: Path) -> None:
    for fields in ({"command": ["/bin/sh"]}, {"lease": "/etc/shadow"}):
        assert "unknown field" in captured.ask("watchdog", **fields)
    second = Asking(socket.socket(fileno=captured.ask("watchdog")))
    assert captured.ask("watchdog") == "the watchdog has a launcher already"
    found = (folder / "place" / "launcher" / "watchdog.lock").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
    assert second.command("scancel", "7")["code"] == 0
    assert "is not a command that is run here" in second.command("sh", "-c", "id")
    second.end.close()
    until = time.monotonic() + PATIENCE_S
    while isinstance(channel := captured.ask("watchdog"), str):
        assert time.monotonic() < until, "its launcher did not end with the channel"
    os.close(channel)


def test_what_the_account_puts_beside_the_lease_misleads_nobody(folder: Path, ann: Account) -> None:
    """`ann` is the account of a captured controller; root reads and writes there."""
    own, secret, lease = folder / "lease.d", folder / "secret", folder / "lease"
    own.mkdir()
    os.chown(own, ann.uid, ann.gid)
    secret.write_text("precious")
    secret.chmod(0o600)
    lease.symlink_to(own / "lease")
    for name in ("lease", "lease.fuses", "lease.off"):
        act_as(ann, lambda name=name: (own / name).symlink_to(secret))
    assert read_lease(lease) is None
    assert read_fuses(fuse_file(lease)) == {}
    write_lease(lease, 0, ("-",))
    write_beside(switch_file(lease), b"")
    assert secret.read_text() == "precious"
    assert (own / "lease").read_text() == "0 - 0\n"
    assert {(own / name).lstat().st_uid for name in ("lease", "lease.off")} == {ann.uid}
    shell(ann, f"cd {own} && rm -f lease lease.fuses && mkfifo lease lease.fuses")
    assert (read_lease(lease), read_fuses(fuse_file(lease))) == (None, {})
    nested = '{"boot_id":"x","fuses":{},"y":' + "[" * 100_000 + "]" * 100_000 + "}"
    for text in ("", "\xff", "1 2", "x a b", nested, '{"boot_id":1}', '{"boot_id":"x","fuses":{"a":{"attempt":"1"}}}'):
        for name in ("lease", "lease.fuses"):
            (own / name).unlink()
            (own / name).write_bytes(text.encode("latin-1"))
        assert (read_lease(lease), read_fuses(fuse_file(lease))) == (None, {}), text[:40]
