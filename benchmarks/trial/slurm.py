"""A trial on a Slurm: jobs are held at submission, a controller for each policy and round steers them.

Before the first round every kind runs once, alone on its nodes; its time is what policies know of it, since without the
node side nothing is counted there. Without a slurm.conf a Slurm is started here (root; munge, slurmctld, a slurmd per
node), whose nodes have more cores than this machine: a job is one process there, whatever its cores. Every job writes
down when it starts and ends, in a folder that all nodes must see.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.trial.work import Kind, Ran, Say, TrialJob
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.json_form import write_json
from tests.support.slurm_cluster import missing, running_slurm

SITE = """place = "{place}"
profiles = "{profiles}"
[policy]
name = "{name}"
{keys}
[slurm]
conf = "{conf}"
lease = "{folder}/lease"
held = "all"
poll_s = 0.5
{partitions}
"""
SCRIPT = """#!/bin/sh
date +%s.%N > {times}.start
{command} > /dev/null || exit
date +%s.%N > {times}.end
"""
STEERS, STARTS_WITHIN_S, LOOK_S = "cohabit: steering", 120.0, 0.5
ALONE = PolicyConfig(name="ce-easy")
COHABIT = (sys.executable, "-m", "cohabit.cli")


class UnderSlurm:
    """A Slurm that is there (`conf`), or one of so many nodes started for the trial."""

    def __init__(
        self, folder: Path, conf: str, partition: str, nodes: int, node_cores: int, say: Say, from_nothing: bool = False
    ) -> None:
        self.from_nothing = from_nothing
        self.folder, self.partition, self.nodes, self.node_cores, self.say = folder, partition, nodes, node_cores, say
        self.conf, self.pretended = conf, not conf
        self.cores = nodes * node_cores
        self.profiles = folder / "profiles.json"
        self.most_copies = 1 if self.pretended else node_cores
        if self.pretended and (reason := missing()):
            raise InputError(reason, "trial --slurm", "install it, or name the slurm.conf of a Slurm: --conf FILE")

    @property
    def words(self) -> str:
        """Return what it is."""
        what = f"{self.nodes} nodes of {self.node_cores} cores under Slurm"
        return f"{what}, all on this machine's {os.cpu_count()} cores" if self.pretended else what

    @contextmanager
    def prepared(self, kinds: Sequence[Kind]) -> Iterator[None]:
        """Start the Slurm, if it is the trial's own."""
        with ExitStack() as stack:
            if self.pretended:
                self.say(f"starting a Slurm of {self.nodes} nodes here ...")
                slurm = running_slurm(self.folder / "slurm", nodes=self.nodes, cores=self.node_cores)
                self.conf = str(stack.enter_context(slurm).conf)
            write_json([], self.profiles)
            self.profiles.chmod(0o644)
            if not self.from_nothing:
                self._learn(kinds)
            yield

    def _learn(self, kinds: Sequence[Kind]) -> None:
        self.say(f"learning how long {len(kinds)} kinds of jobs take alone ...")
        jobs = [TrialJob(f"{one.name}-alone", one, 0.0, max(60.0, 10 * one.seconds)) for one in kinds]
        took = {one.kind.name: ran.end_s - ran.start_s for one in jobs for ran in self.run(one.name, ALONE, [one])}
        level = Curve((1, 2), (1.0, 1.0)), Curve((1, 2), (0.0, 0.0))
        known = [Profile(one.name, one.cores, (ScaleProfile(1, took[one.name], *level),)) for one in kinds]
        write_json(known, self.profiles)

    def run(self, label: str, policy: PolicyConfig, jobs: Sequence[TrialJob]) -> list[Ran]:
        """Run a round under one policy, from attaching a controller to detaching it."""
        place = self.folder / label
        place.mkdir()
        site = place / "site.toml"
        site.write_text(self._site(place, policy), encoding="utf-8")
        said = place / "attach.log"
        with said.open("wb") as log:
            controller = subprocess.Popen([*COHABIT, "slurm", "attach", str(site)], stdout=log, stderr=log)
        try:
            _until(lambda: STEERS in said.read_text() or controller.poll() is not None, STARTS_WITHIN_S, said)
            if controller.poll() is not None:
                raise InputError(f"the controller ended: {said.read_text()[-300:]}", label, "see docs/slurm.md")
            return self._round(place, jobs)
        finally:
            controller.terminate()
            controller.wait(60)
            subprocess.run([*COHABIT, "slurm", "detach", str(site)], check=False, capture_output=True, timeout=120)

    def _site(self, place: Path, policy: PolicyConfig) -> str:
        keys = f'unknown = "{policy.unknown}"' if policy.name == "cohabit" else ""
        partitions = f'partitions = ["{self.partition}"]' if self.partition else ""
        where = {"place": place / "state", "folder": place, "profiles": self.profiles, "conf": self.conf}
        return SITE.format(name=policy.name, keys=keys, partitions=partitions, **where)

    def _round(self, place: Path, jobs: Sequence[TrialJob]) -> list[Ran]:
        around = os.environ | {"SLURM_CONF": self.conf}
        began_s, came = time.monotonic(), {}
        for one in jobs:
            time.sleep(max(0.0, one.submit_s - (time.monotonic() - began_s)))
            script = place / f"{one.name}.sh"
            script.write_text(SCRIPT.format(times=place / one.name, command=shlex.join(one.kind.command)))
            words = ["sbatch", "--hold", "--parsable", "--output=/dev/null", f"--job-name={one.kind.name}"]
            words += [f"--ntasks={one.kind.cores}", f"--time={-(-int(one.limit_s) // 60)}"]
            words += [f"--partition={self.partition}"] if self.partition else []
            came[one.name] = time.time()
            done = subprocess.run([*words, str(script)], env=around, capture_output=True, text=True, check=False)
            if done.returncode:
                raise InputError(f"sbatch says: {done.stderr.strip()}", one.name, "correct it")
        patience_s = 60.0 + 20.0 * sum(one.kind.seconds for one in jobs)
        _until(lambda: all((place / f"{one.name}.end").exists() for one in jobs), patience_s, place / "attach.log")
        time.sleep(LOOK_S)  # the last date is written
        return [Ran(came[one.name], *_moments(place / one.name)) for one in jobs]


def _moments(times: Path) -> tuple[float, float]:
    start, end = (float(times.with_suffix(f".{what}").read_text()) for what in ("start", "end"))
    return start, end


def _until(condition: Callable[[], bool], seconds: float, log: Path) -> None:
    end_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_s:
            raise InputError(f"nothing more happened within {seconds:.0f} s", "trial", f"look at {log}")
        time.sleep(LOOK_S)
