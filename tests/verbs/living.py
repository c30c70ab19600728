"""A scheduler that really runs, for the tests of the verbs; jobs are real programs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.cli_calls import COMMAND, Answer, cohabit

START_S = 180.0  # machine code is loaded first, and the machine may be busy


ROOT_JOBS = ("--root-jobs",) if os.geteuid() == 0 else ()  # tests submit as the account they run as

AN_ACCOUNT = '[launcher]\naccount = "nobody"\nuids = [0]\n' if os.geteuid() == 0 else ""  # for `cohabit controller`


@dataclass
class Scheduler:
    """`cohabit up` in a folder of its own."""

    place: Path
    options: tuple[str, ...] = ("--nodes", "2")
    process: subprocess.Popen[str] | None = None

    command: tuple[str, ...] = ()  # another way to start one than `cohabit up`

    @property
    def socket(self) -> Path:
        return self.place / "cohabit.sock"

    def start(self) -> Scheduler:
        """Until it answers."""
        with open(self.place.with_suffix(".err"), "a+") as err:
            self.process = subprocess.Popen(
                [COMMAND, *(self.command or ("up", "--place", str(self.place), *self.options, *ROOT_JOBS))], text=True,
                stdout=subprocess.DEVNULL, stderr=err,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self.socket.exists() or cohabit("queue", "--server", self.socket, "--json").code != 0:
            assert self.process.poll() is None, self.errors()
            assert time.monotonic() < deadline, self.errors()
            time.sleep(0.05)
        return self

    def stop(self, how: int = signal.SIGINT) -> int:
        """As a person or a crash would."""
        assert self.process is not None
        self.process.send_signal(how)
        try:
            return self.process.wait(120)
        finally:
            if self.process.poll() is None:
                self.process.kill()

    def errors(self) -> str:
        """What it said."""
        return self.place.with_suffix(".err").read_text()

    def call(self, *words: str | Path) -> Answer:
        """A verb, in this process."""
        return cohabit(words[0], "--server", self.socket, *words[1:])

    def ok(self, *words: str | Path) -> Any:
        """A verb that must succeed, with its document."""
        answer = self.call(words[0], "--json", *words[1:])
        assert answer.code == 0, answer
        return answer.document

    def submit(self, *words: str | Path) -> str:
        """The new job's name."""
        return str(self.ok("submit", *words)["job"])

    def show(self, job: str) -> dict[str, Any]:
        return dict(self.ok("show", job))

    def until(self, job: str, *states: str, patience_s: float = 120.0) -> dict[str, Any]:
        """The job as soon as it is in one of these states."""
        deadline = time.monotonic() + patience_s
        while (view := self.show(job))["state"] not in states:
            assert time.monotonic() < deadline, view
            time.sleep(0.05)
        return view

    def until_empty(self) -> None:
        """Wait until nothing waits or runs: jobs that a test cancelled may still be ending."""
        deadline = time.monotonic() + 120.0
        while jobs := self.ok("queue")["jobs"]:
            assert time.monotonic() < deadline, jobs
            time.sleep(0.05)

    def over(self, job: str) -> dict[str, Any]:
        return self.until(job, "done", "failed", "killed", "cancelled", "lost")
