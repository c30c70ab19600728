"""docs/install-mates.md is typed on a real Slurm and a real Grid Engine; users then submit pairs in every way there is.

Grid Engine's side is typed within its namespaces, where its master is; a cable leads from there to Slurm's side.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cohabit.backend.steered.fuses import boot_us, read_fuses
from cohabit.backend.steered.lease import fuse_file
from tests.backend.coupled.sides import SCRIPT
from tests.backend.gridengine.conftest import end_watchdogs
from tests.backend.slurm.steering import until
from tests.ports import free_port
from tests.support import gridengine_cluster, slurm_cluster
from tests.support.gridengine_cluster import (
    MASTER,
    NETWORK,
    PROGRAMS,
    GridEngineCluster,
    replaced,
    running_gridengine,
)
from tests.support.slurm_cluster import SlurmCluster, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("install-mates")]
ROOT = Path(__file__).parents[3]
GUIDE, INSTALL = ROOT / "docs" / "install-mates.md", ROOT / "docs" / "install.md"
BLOCK = re.compile(r"^```sh ([\w-]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOBODY, TOGETHER_S, STOPPED_S = 65534, 2.0, 6.0
NO_THRESHOLD = "[mates] has no threshold"


@dataclass
class Side:
    """One cluster as it was installed."""

    name: str
    word: str  # of the manager
    folder: Path
    around: dict[str, str]
    ge: GridEngineCluster | None = None  # within whose namespaces everything is typed
    typed: int = field(default=0)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def work(self) -> Path:
        """Where the jobs of its users run."""
        return self.folder / "work"

    @property
    def log(self) -> str:
        """What its controller has said."""
        path = self.state / "attach.log"
        return path.read_text() if path.exists() else ""

    def type_in(self, lines: str, fails: bool = False) -> str:
        """In a shell, as a person would; the first line that fails ends it."""
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in self.around.items())
        words = ["bash", "-euo", "pipefail", "-c", exports + lines]
        self.typed += 1
        said = self.folder / f"typed-{self.typed}"
        if self.ge is None:
            with said.open("wb") as stream:
                typing = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        else:
            self.ge.start_on(MASTER, said.name, *words, log=said, folder=ROOT)
            typing = self.ge.daemons.pop(said.name)
        assert (typing.wait(240) != 0) == fails, f"{self.name}: {said.read_text()} {self.log}"
        return said.read_text()

    def give(self, *words: str, fails: bool = False) -> str:
        """`cohabit WORDS` of an ordinary user in the folder of the jobs."""
        return self.type_in(self.as_user(shlex.join(("cohabit", *words))), fails)

    def as_user(self, lines: str) -> str:
        """What a user types; see tests/backend/slurm/as_user.py for what is the user's in it."""
        python = f"{shlex.quote(sys.executable)} -m tests.backend.slurm.as_user {NOBODY}"
        return (
            f'cohabit() {{ PYTHONPATH={ROOT} {python} "$@"; }}\ncd {self.work}\n'
            f"export COHABIT_SERVER={self.state / self.word}\n" + lines.replace("/var/lib/cohabit", str(self.state))
        )

    def program(self, mates: str, seconds: float = 2.0) -> str:
        """One that notes when it begins and ends."""
        path = self.work / mates
        path.write_text(SCRIPT.format(log=self.work / f"{mates}.log", seconds=seconds))
        path.chmod(0o755)
        return f"./{mates}"

    def submit(self, mates: str, *options: str) -> None:
        """By `cohabit submit`."""
        self.give("submit", *(options or ("--group", f"{mates}@alpha,beta")), "-n", "2", "--", self.program(mates))

    def said(self, mates: str, word: str) -> list[float]:
        log = self.work / f"{mates}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [float(line.split()[1]) for line in lines if line.startswith(word)]

    def ordered(self) -> bool:
        """A start with mates was decided upon; its manager is told just now."""
        return any(fuse.burns_us > boot_us() for fuse in read_fuses(fuse_file(self.state / "lease")).values())

    def status(self) -> dict[str, Any]:
        found = json.loads(self.type_in(f'cohabit {self.word} status "$COHABIT_ETC/{self.word}.toml" --json'))
        assert isinstance(found, dict)
        return found

    def restart(self) -> None:
        """The controller, with what the site file says now."""
        self.stop()
        self.type_in("".join(one for one in blocks(self.word) if "attach.log" in one))

    def stop(self) -> None:
        """The controller in good order. (Nobody buries it in Grid Engine's namespaces: dead is enough.)"""
        self.type_in('pid=$(cat "$COHABIT_STATE/attach.pid")\nkill -TERM "$pid" || exit 0\n'
                     'while grep -qs "^State:.[^Z]" "/proc/$pid/status"; do sleep 0.2; done')  # fmt: skip


@dataclass
class Pair:
    """Both sides, steered."""

    alpha: Side
    beta: Side
    slurm: SlurmCluster
    ge: GridEngineCluster

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.alpha, self.beta

    def why(self) -> str:
        theirs = self.slurm.run("squeue", check=False) + self.ge.run("qstat", "-f", "-u", "*", check=False)
        return "\n".join([*(f"{side.name}: {side.log[-3000:]}" for side in self.sides), theirs])

    def began(self, *mates: str) -> tuple[list[float], list[float]]:
        """When the programs of both sides began, all of them, once both have run to their ends."""
        names = mates * 2 if len(mates) == 1 else mates
        both = list(zip(self.sides, names, strict=True))
        until(lambda: all(side.said(name, "end") for side, name in both), 240, self.why)
        assert [len(side.said(name, "end")) for side, name in both] == [1, 1], self.why()
        first, second = (side.said(name, "begin") for side, name in both)
        return first, second

    def together(self, *mates: str) -> None:
        """Both began once, within two seconds."""
        first, second = self.began(*mates)
        assert (len(first), len(second)) == (1, 1), self.why()
        assert abs(first[0] - second[0]) < TOGETHER_S, self.why()


def blocks(kind: str) -> list[str]:
    """What the guide has typed on one side before its removal."""
    text = GUIDE.read_text(encoding="utf-8").partition("## Removal")[0]
    return [lines for word, lines in BLOCK.findall(text) if word == kind]


def removal(kind: str) -> str:
    text = GUIDE.read_text(encoding="utf-8").partition("## Removal")[2]
    return "".join(lines for word, lines in BLOCK.findall(text) if word == kind)


def cable(ge: GridEngineCluster) -> tuple[str, str]:
    """From here to the master of Grid Engine; the addresses of both ends. It goes with the namespaces."""
    name, network = f"ge{os.getpid()}", f"10.79.{os.getpid() % 256}"
    link = ["ip", "link", "add", name, "type", "veth", "peer", "name", "wan", "netns", str(ge.namespaces[MASTER])]
    inside = ["nsenter", "-t", str(ge.namespaces[MASTER]), "-n"]
    for words in (
        link, ["ip", "addr", "add", f"{network}.1/24", "dev", name], ["ip", "link", "set", name, "up"],
        [*inside, "ip", "addr", "add", f"{network}.2/24", "dev", "wan"], [*inside, "ip", "link", "set", "wan", "up"],
    ):  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
    return f"{network}.1", f"{network}.2"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The usual paths in a folder of the test; the package is the one under test."""
    packages = Path(sys.executable).parent
    return {
        "COHABIT_PREFIX": str(packages.parent), "COHABIT_ETC": str(folder / "etc"),
        "COHABIT_STATE": str(folder / "state"), "COHABIT_RUN": str(folder / "run"),
        "COHABIT_UNITS": str(folder / "units"), "PATH": f"{packages}:{os.environ['PATH']}:/usr/sbin",
    } | more  # fmt: skip


def editor(folder: Path, addresses: dict[str, str]) -> str:
    """A program that writes a site's own addresses where the template has examples."""
    path = folder / "editor"
    changes = " ".join(f"-e 's|{example}|{own}|'" for example, own in addresses.items())
    path.write_text(f'#!/bin/sh\nexec sed -i {changes} "$1"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Installed by the guide, and steered."""
    if reason := slurm_cluster.missing() or gridengine_cluster.missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-mates-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path in ("alpha", "beta", "alpha/work", "beta/work"):
            (folder / path).mkdir()
            (folder / path).chmod(0o777 if "work" in path else 0o755)
        with (
            running_slurm(folder / "slurm", nodes=2, cores=4, name="alpha") as slurm,
            running_gridengine(folder / "gridengine", hosts=2, slots=4) as ge,
        ):
            both = install(folder, slurm, ge)
            try:
                yield both
            finally:
                for side in both.sides:
                    if (side.state / "attach.pid").exists():
                        side.stop()
                for side in both.sides:
                    end_watchdogs(side.state)


def install(folder: Path, slurm: SlurmCluster, ge: GridEngineCluster) -> Pair:
    """Every block, as an operator would: one side, then the other."""
    here, there = cable(ge)
    peers = {"10.0.0.1:7001": f"{here}:{free_port()}", "10.0.0.2:7001": f"{there}:7001"}
    doors = {"10.0.0.1:7002": f"{here}:{free_port()}", "10.0.0.2:7002": f"{NETWORK}.1:7002"}  # as the nodes see them
    edit, one, two = editor(folder, peers | doors), folder / "alpha", folder / "beta"
    led = {key: ge.environment[key] for key in ("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT")}
    alpha = Side("alpha", "slurm", one, environment(one, EDITOR=edit, SLURM_CONF=str(slurm.conf)))
    beta = Side("beta", "gridengine", two, environment(two, EDITOR=edit, **led), ge)
    beta.around["PATH"] = f"{PROGRAMS}:{beta.around['PATH']}"
    alpha.type_in("packaging/install.sh node\npackaging/install.sh controller\nscontrol reconfigure\n")
    first, *others = blocks("slurm")
    alpha.type_in(first)
    files, key, *others_there = blocks("gridengine")
    beta.type_in(files + key)
    (beta.folder / "etc" / "pair.key").write_bytes((alpha.folder / "etc" / "pair.key").read_bytes())  # scp
    (beta.folder / "etc" / "pair.key").chmod(0o600)
    beta.type_in("".join(others_there))
    alpha.type_in("".join(others))
    return Pair(alpha, beta, slurm, ge)


def test_what_the_guide_says_is_switched_on(pair: Pair) -> None:
    """A site that follows the guide has the threshold; users' words are those of the guide."""
    for side, kind, program in ((pair.alpha, "user-slurm", "simulate"), (pair.beta, "user-gridengine", "visualise")):
        assert side.status()["warnings"] == []
        assert NO_THRESHOLD not in side.log
        side.program(program)
        (words,) = blocks(kind)
        assert f"./{program}" in words
        assert "submitted job flood" in side.type_in(side.as_user(words))
    pair.together("simulate", "visualise")
    for side, program in ((pair.alpha, "simulate"), (pair.beta, "visualise")):
        assert (side.work / f"{program}.log").stat().st_uid == NOBODY
        until(lambda side=side: json.loads(side.give("show", "flood", "--json"))["state"] == "done", 60, pair.why)  # type: ignore[misc]
    script = pair.slurm.run("scontrol", "show", "job")
    assert "AdminComment=cohabit:run:1" in script


def test_a_mate_may_come_by_its_managers_own_command(pair: Pair) -> None:
    pair.alpha.submit("own")
    script = pair.beta.program("own")
    words = (
        "qsub",
        "-terse",
        "-wd",
        str(pair.beta.work),
        "-o",
        "/dev/null",
        "-j",
        "y",
        "-l",
        "h_rt=600",
        "-pe",
        "mpi",
        "2",
    )
    pair.ge.run(*words, "-ac", "mates=own", str(pair.beta.work / script), user="nobody")
    pair.together("own")


def test_a_mate_may_be_called_otherwise(pair: Pair) -> None:
    pair.alpha.submit("left", "--name", "left", "--mate", "beta:right")
    until(lambda: pair.alpha.status()["disagreements"] == [], 60, pair.why)
    pair.beta.submit("right", "--name", "right", "--mate", "alpha:left")
    pair.together("left", "right")


def test_a_name_that_is_taken_is_refused_and_leaves_nothing(pair: Pair) -> None:
    pair.alpha.submit("taken")
    before = pair.slurm.run("squeue", "--noheader", "--format=%A")
    assert "whose job here is" in pair.alpha.give("submit", "--group", "taken@alpha,beta", "--", "true", fails=True)
    assert "an array cannot have mates" in pair.alpha.give(
        "submit", "--array", "1-3", "--group", "many@alpha,beta", "--", "true", fails=True
    )
    other = pair.alpha.give("submit", "--group", "taken@alpha:this,beta:that", "--", "true", fails=True)
    assert "known here with other members or terms" in other
    assert pair.slurm.run("squeue", "--noheader", "--format=%A") == before
    pair.beta.submit("taken")
    pair.together("taken")


@pytest.mark.parametrize("which", ["slurmctld", "qmaster"])
def test_a_manager_is_stopped_in_the_middle(pair: Pair, which: str) -> None:
    """As installed: with the terms of the site files that come with the package."""
    for side in pair.sides:
        side.submit(which)
    until((pair.alpha if which == "slurmctld" else pair.beta).ordered, 120, pair.why)
    stand_still(pair, which)
    first, second = pair.began(which)
    alone = [one for ones, others in ((first, second), (second, first)) for one in ones
             if min(abs(one - other) for other in others) > TOGETHER_S]  # fmt: skip
    assert not alone, (first, second, pair.why())


def test_a_manager_that_takes_its_time_is_waited_for(pair: Pair) -> None:
    """Grid Engine schedules every 15 s unless it is told otherwise. The mate stands at the threshold meanwhile."""
    before = pair.ge.run("qconf", "-ssconf")
    slow = replaced(before, {"schedule_interval": "0:0:15", "flush_submit_sec": "0", "flush_finish_sec": "0"})
    schedule(pair.ge, slow)
    try:
        for side in pair.sides:
            side.submit("slow")
        pair.together("slow")
    finally:
        schedule(pair.ge, before)
    number = pair.slurm.run("squeue", "--noheader", "--states=all", "--name=slow", "--format=%A").strip()
    assert "AdminComment=cohabit:run:1:" in pair.slurm.run("scontrol", "show", "job", number)  # at the first attempt


def schedule(ge: GridEngineCluster, text: str) -> None:
    (ge.folder / "scheduler").write_text(text)
    ge.run("qconf", "-Msconf", str(ge.folder / "scheduler"))


def stand_still(pair: Pair, which: str) -> None:
    def send(number: signal.Signals) -> None:
        if which == "slurmctld":
            pair.slurm.daemons[which].send_signal(number)
        else:
            pair.ge.signal(which, number)

    send(signal.SIGSTOP)
    try:
        time.sleep(STOPPED_S)
    finally:
        send(signal.SIGCONT)


def test_what_is_missing_for_mates_is_said(pair: Pair) -> None:
    """A queue without our starter; then site files without a threshold. Pairs still start together."""
    starter = pair.beta.folder / "etc" / "gridengine" / "starter.sh"
    pair.ge.run("qconf", "-mattr", "queue", "starter_method", "NONE", "all.q")
    (said,) = pair.beta.status()["warnings"]
    assert "queue all.q lacks starter_method or prolog" in said
    pair.ge.run("qconf", "-mattr", "queue", "starter_method", str(starter), "all.q")
    for side in pair.sides:
        side.type_in(f'sed -i "s/^threshold/#: threshold/" "$COHABIT_ETC/{side.word}.toml"')
        side.restart()
        (said,) = side.status()["warnings"]
        assert said.startswith(NO_THRESHOLD)
        assert NO_THRESHOLD in side.log
    try:
        for side in pair.sides:
            side.submit("without")
        first, second = pair.began("without")
        assert abs(first[-1] - second[-1]) < TOGETHER_S, pair.why()
    finally:
        for side in pair.sides:
            side.type_in(f'sed -i "s/^#: threshold/threshold/" "$COHABIT_ETC/{side.word}.toml"')
            side.restart()
    for side in pair.sides:
        side.submit("again")
    pair.together("again")


def test_the_removal_leaves_grid_engine_as_it_was(pair: Pair) -> None:
    pair.alpha.submit("left-over")
    pair.beta.submit("waits")
    pair.beta.type_in(removal("gridengine"))
    queue, kept = pair.ge.run("qconf", "-sq", "all.q"), pair.ge.run("qconf", "-sconf", "global")
    assert re.search(r"^starter_method +NONE$", queue, re.MULTILINE)
    assert re.search(r"^prolog +NONE$", queue, re.MULTILINE)
    assert re.search(r"^jsv_url +none$", kept, re.MULTILINE)
    left = sorted(path.name for path in pair.beta.folder.iterdir() if "typed" not in path.name)
    assert left == ["etc", "state", "units", "work"]
    kept = sorted(path.name for path in (pair.beta.folder / "etc").iterdir())
    assert kept == ["gridengine.toml", "pair.key", "threshold.key"]  # the site file and the keys
    assert not list((pair.beta.folder / "units").iterdir())
    assert not pair.beta.said("waits", "begin")
