"""A round of the crash campaign: jobs of several users share nodes, and everything may be killed at random moments,
several times, while the disk fills up, the journal becomes read-only or resctrl fails. What a round does follows from
its seed; what is due when is the machine's."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path

from cohabit.agent import control_groups
from cohabit.app.serve.serving import open_parts, verify_journal
from cohabit.backend.protocol import DONE, FAILED, Launch
from cohabit.live.controller.records import Record
from cohabit.model.curve import Curve
from cohabit.model.event import ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import ScaleProfile
from cohabit.model.units import SECOND
from tests.system.crash_troubles import RESCTRL, Trouble, troubled
from tests.system.deadly_controller import FORGOTTEN, REFUSED, TAKEN, Orders, config_of
from tests.system.deadly_rounds import (
    SLEEPER,
    Controller,
    Nursery,
    cores_of,
    doubled,
    ends_of,
    in_flight,
    kill_launcher,
    kill_program,
    kill_runner,
    runs_of,
    wait_for,
)

USERS = (20001, 20002, 20003)  # whoever that is: a number is all that a user needs
LONGEST_S = 180.0  # a start that a full disk refused is tried again after a minute
FELT_S = 30.0  # so long a trouble may take to be felt
MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What a seed stands for."""

    seed: int
    trouble: str
    policy: str
    run_s: tuple[float, ...]  # of the jobs
    pauses_s: tuple[float, ...]  # before each is handed in
    strikes: tuple[str, ...]  # in this order, at random moments
    fates: tuple[tuple[str, int], ...]  # boundaries at which controllers kill themselves, one after another
    dead_s: float  # how long nobody controls then
    lasts_s: float  # of the trouble, at least
    checkpoint_every: int
    users: tuple[int, ...] = USERS
    mutant: str = ""  # what is broken on purpose
    longest_s: float = LONGEST_S  # for the whole round


def plan_of(seed: int, kinds: tuple[str, ...]) -> Plan:
    """Troubles come in turn, so that a few rounds have them all; the rest is drawn."""
    rng, trouble = random.Random(f"crash round {seed}"), kinds[seed % len(kinds)]
    jobs = rng.randrange(5, 9)
    return Plan(
        seed, trouble, "sns" if trouble == RESCTRL else rng.choice(("cs", "cs", "ce-easy")),
        tuple(rng.uniform(0.1, 0.8) for _ in range(jobs)),
        tuple(rng.uniform(0.0, 0.3) for _ in range(jobs)),
        tuple(rng.choices(("controller", "launcher", "runner", "program"), k=rng.randrange(3, 7))),
        tuple(("", rng.randrange(1, 60)) for _ in range(rng.randrange(1, 4))),
        rng.uniform(0.0, 0.5), rng.uniform(0.2, 1.5), rng.choice((3, 20, 2000)),
    )  # fmt: skip


@dataclass
class Outcome:
    """What happened in a round; `problems` is empty where every promise was kept."""

    plan: Plan
    starts: int = 0  # of controllers
    strikes: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    jobs: int = 0
    refused: int = 0  # submissions, while there was trouble
    batches: int = 0  # replayed, with the same orders
    problems: list[str] = field(default_factory=list)


class Round:
    """One round below a folder that other users may pass through."""

    def __init__(self, nursery: Nursery, folder: Path, plan: Plan, place: Path, root: Path | None, trouble: Trouble):
        self.plan, self.folder, self.place, self.trouble = plan, folder, place, trouble
        self.log, self.notes, self.rng = folder / "log", folder / "notes", random.Random(f"moments {plan.seed}")
        self.names = [f"job-{number}" for number in range(len(plan.run_s))]
        self.orders = Orders(
            str(place), 1 if plan.policy != "ce-easy" else 2, [self._job(at) for at in range(len(self.names))],
            checkpoint_every=plan.checkpoint_every, policy=plan.policy, pauses_s=list(plan.pauses_s),
            facts=_profiles() if root is not None else [], resctrl="" if root is None else str(root),
            notes=str(self.notes), mutant=plan.mutant,
        )  # fmt: skip
        self.controller = Controller(nursery, self.orders, plan.dead_s, plan.fates)
        self.coming, self.struck, self.outcome = list(plan.strikes), dict[str, int](), Outcome(plan)
        self.phase, self.since_s, self.heard = "before", 0.0, 0  # of the trouble

    def _job(self, at: int) -> tuple[Job, Launch]:
        """Jobs belong to different users, and run as them where we may become them."""
        user = self.plan.users[at % len(self.plan.users)]
        python = python_of(user)
        words = (python or sys.executable, "-I", "-S", str(self.folder / SLEEPER.name), str(self.log),
                 str(self.plan.run_s[at]), "breed")  # fmt: skip
        launch = Launch(words, folder="/", processes=1, memory_bytes=64 * MIB, uid=user if python else -1)
        asked = {"nodes": 1} if self.plan.policy == "ce-easy" else {"processes": 1}
        job = Job(self.names[at], 60 * SECOND, memory_bytes=64 * MIB, user=user, program="sleeper", **asked)
        return job, launch

    def play(self) -> Outcome:
        """Until all jobs are over; the promises are looked at afterwards."""
        self.folder.chmod(0o711)
        self.notes.mkdir()
        shutil.copy(SLEEPER, self.folder)
        for path in (self.log, Path(f"{self.log}.cores")):
            path.touch()
            path.chmod(0o666)
        try:
            if not wait_for(self._over, self.plan.longest_s):
                self.controller.tell_where()
                self._complain(f"did not end ({self._left()}, {self.trouble.complaint()}): {self._said()}")
        finally:
            self.trouble.go()
            self.controller.kill()
        if self.plan.mutant:
            wait_for(self._settled, FELT_S)  # it may have left programs behind, which end by themselves
        if not self.outcome.problems:
            self._judge()
        self.outcome.starts = self.controller.starts
        return self.outcome

    def _over(self) -> bool:
        if self.plan.mutant and self._doubled():
            return True  # there is nothing more to be learned from it
        self.controller.keep_alive()
        self._trouble()
        if self.coming and self.rng.random() < 0.08 and self._strike(self.coming[0]):
            self.outcome.strikes[self.coming[0]] = self.outcome.strikes.get(self.coming[0], 0) + 1
            del self.coming[0]
        return self.phase == "after" and not self._left() and not self.trouble.complaint()

    def _doubled(self) -> bool:
        """Whether a job was started while an earlier run of it went on."""
        return any(
            after.begin_us < before.last_us for runs in runs_of(self.log).values() for before, after in pairwise(runs)
        )

    def _settled(self) -> bool:
        """Whether every run on record has ended."""
        return all(path.with_name("ended").exists() for path in (self.place / "runs").glob("*/started"))

    def _left(self) -> list[str]:
        """Jobs that are not over, and runs that are not settled."""
        over = {job for (job, _), end in ends_of(self.notes).items() if end.status in (DONE, FAILED)}
        runs = os.listdir(self.place / "runs") if (self.place / "runs").exists() else []
        return [name for name in (*self.names, *runs) if name not in over and not name.startswith(".")]

    def _strike(self, whom: str) -> bool:
        if whom == "controller":
            flying = in_flight(self.place / "runs") or not self._left()
            if flying:
                self.controller.kill()
            return flying
        if whom == "launcher":
            return kill_launcher(self.controller.pid)
        if whom == "runner":
            return kill_runner(self.place / "runs", self.log)
        if (run := kill_program(self.place / "runs", self.log)) is not None:
            self.struck[run[0]] = run[1]
        return run is not None

    def _trouble(self) -> None:
        """It comes at a random moment and goes when it was felt and has lasted."""
        now_s, lines = time.monotonic(), self._refusals()
        if self.phase == "before":
            begun = any(line.startswith(TAKEN) for line in self._lines("submissions"))
            if begun and (self.rng.random() < 0.03 or not self._left()):
                self.phase, self.since_s, self.heard = "now", now_s, len(lines)
                self.trouble.come()
                if self.trouble.said:
                    (self.notes / "knock").touch()
        elif self.phase == "now":
            felt = not self.trouble.said or len(lines) > self.heard
            if now_s > self.since_s + (self.plan.lasts_s if felt else FELT_S):
                (self.notes / "knock").unlink(missing_ok=True)
                self.trouble.go()
                self.phase = "after"

    def _refusals(self) -> list[str]:
        return [line for line in self._lines("submissions") if line.startswith(REFUSED)] + self._lines("starts")

    def _lines(self, name: str) -> list[str]:
        return (self.notes / name).read_text().splitlines() if (self.notes / name).exists() else []

    def _said(self) -> str:
        path = self.notes / "controller.log"
        return path.read_text()[-3000:] if path.exists() else "no controller ever began"

    def _complain(self, sentence: str) -> None:
        self.outcome.problems.append(f"seed {self.plan.seed} ({self.plan.trouble}): {sentence}")

    # ---- promises ---------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        runs, ends = runs_of(self.log), ends_of(self.notes)
        self.outcome.jobs, self.outcome.runs = len(self.names), sum(map(len, runs.values()))
        records = self._records()
        for name in self.names:
            record = records.get(name)
            failed = record is not None and record.status == FAILED
            if record is None or record.status not in (DONE, FAILED):
                self._complain(f"{name} is lost: {record}")
            elif failed and (self.struck.get(name) != record.attempt or record.exit_signal != 9):
                self._complain(f"{name} failed, and nobody killed its program: {record}")
            elif problem := doubled(name, runs.get(name, []), ends, well=not failed):
                self._complain(problem)
        self._judge_submissions(records)
        self._judge_cores()
        self._judge_leftovers()
        verified = verify_journal(config_of(self.orders))
        self.outcome.batches = verified.batches
        if verified.difference:
            self._complain(f"replay differs: {verified.difference}")

    def _judge_submissions(self, records: dict[str, Record]) -> None:
        """What was said to be durable is there; what was refused was refused with a reason, and only in trouble."""
        lines = self._lines("submissions")
        for line in lines:
            word, name, *_ = line.split()
            if word == FORGOTTEN or (word == TAKEN and name not in records):
                self._complain(f"{name} was taken and is not known")
        refusals = self._refusals()
        self.outcome.refused = len(refusals)
        clear = [line for line in refusals if any(word in line.lower() for word in self.trouble.said)]
        if self.trouble.said and not clear:
            self._complain(f"nothing was refused with a reason: {refusals}")
        if unclear := [line for line in refusals if line not in clear]:
            self._complain(f"refused without a clear reason: {unclear[:3]}")

    def _records(self) -> dict[str, Record]:
        """As the next controller would find them; what a crash left unwritten is computed from the journal."""
        parts = open_parts(config_of(self.orders))
        try:
            parts.journal.flush()
            known = [line.split()[1] for line in self._lines("submissions") if line.startswith(TAKEN)]
            return parts.journal.records_of(sorted({*self.names, *known}))
        finally:
            parts.journal.close()
            parts.lock.close()

    def _judge_cores(self) -> None:
        """Whoever ran at the same time had cores of its own."""
        cores = cores_of(self.log)
        all_runs = runs_of(self.log).items()
        everybody = [(name, run) for name, runs in all_runs for run in runs if (name, run.attempt) in cores]
        for (name, run), (other, beside) in combinations(everybody, 2):
            shared = cores[name, run.attempt] & cores[other, beside.attempt]
            if shared and run.begin_us < beside.last_us and beside.begin_us < run.last_us:
                self._complain(f"{name} and {other} both had cores {shared}: {run} {beside}")

    def _judge_leftovers(self) -> None:
        """Nobody is left, and no group. Without control groups nobody knows processes that hide their mark."""
        if complaint := self.trouble.complaint():
            self._complain(complaint)
        offer = control_groups.prepare(control_groups.folder_of(self.place), control_groups.find_trees())
        if not offer.trees:
            return
        if found := strays(self.log):
            self._complain(f"orphans: {found}")
        left = [
            name for base in offer.trees.values() for name in os.listdir(base)
            if os.path.isdir(os.path.join(base, name))
        ]  # fmt: skip
        control_groups.tidy_up(offer)
        if left:
            self._complain(f"control groups are left behind: {left}")


def play(nursery: Nursery, folder: Path, plan: Plan) -> Outcome:
    """A round in a folder that does not exist yet."""
    folder.mkdir()
    with troubled(plan.trouble, folder, random.Random(f"trouble {plan.seed}")) as (place, root, trouble):
        return Round(nursery, folder, plan, place, root, trouble).play()


def strays(log: Path) -> list[int]:
    """Living children of jobs, which carry no mark of their run: found by the log they were given."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(log) in words and b"import time; time.sleep(600)" in words:
            found.append(int(name))
    return found


@lru_cache
def python_of(user: int) -> str:
    """A Python this user may execute; "": jobs cannot run as that user, and run as ourselves."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-I", "-S", "-c", ""], user=user, group=user, extra_groups=[], cwd="/", env={}, check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return ""


def _profiles() -> list[ProfileLearned]:
    """Known before the first run, so that jobs share nodes and the cache is divided from the beginning."""
    flat, drawn = Curve((1, 32), (1.0, 1.0)), Curve((1, 32), (0.01, 0.01))
    return [ProfileLearned("sleeper", 1, ScaleProfile(1, 5.0, flat, drawn, flat, 0.0, {"llc_misses": 1e-3}))]
