"""A real controller for attacks: `cohabit up` typed by root, in a process of its own, reached as any account."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.attack.accounts import Account, act_as
from tests.live.api.serving import Answer, UnixConnection, ask

PATIENCE_S = 180.0


class RootController:
    """`cohabit up --place PLACE`, until `stop` or `kill`; `start` again continues in the same place."""

    def __init__(self, place: Path, *words: str, before: Callable[[], None] | None = None) -> None:
        self.place, self.words, self._before = place, words, before
        self.log = place.with_name(place.name + ".log")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Where callers connect."""
        return self.place / "cohabit.sock"

    def start(self) -> None:
        """Returns when callers can connect."""
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cohabit.cli", "up", "--place", str(self.place), *self.words],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", preexec_fn=self._before,
            )  # fmt: skip
        self.until(self.answers)

    def answers(self) -> bool:
        """Whether it serves; fails if it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"the controller ended:\n{self.said()}"
        with contextlib.suppress(OSError):
            return self.ask(None, "GET", "/v1/ping").status == 200
        return False

    def stop(self) -> None:
        """As Ctrl-C would."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """With no chance to do anything more."""
        self._end(signal.SIGKILL)

    def launcher(self) -> int:
        """The process that runs jobs for it."""
        assert self.process is not None
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
                if parent == self.process.pid and b"launcher/serve.py" in Path(f"/proc/{name}/cmdline").read_bytes():
                    return int(name)
        raise AssertionError("there is no launcher")

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)
            self.process = None

    def said(self) -> str:
        """All that it wrote to its terminal."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ask(self, account: Account | None, method: str, path: str, body: Any = None) -> Answer:
        """One request over the socket, as this account; None: as root."""

        def call() -> list[Any]:
            return list(ask(UnixConnection(str(self.socket)), method, path, body))

        return Answer(*(call() if account is None else act_as(account, call)))

    def submit(self, account: Account, script: str, **others: Any) -> str:
        """A shell script as a job of the account; its name."""
        body = {"command": ["/bin/sh", "-c", script], "limit_s": 60, **others}
        answer = self.ask(account, "POST", "/v1/jobs", body)
        assert answer.status == 201, answer
        return str(answer.body["job"])

    def over(self, job: str, timeout_s: float = 120) -> dict[str, Any]:
        """The job once it has ended."""
        answer = self.ask(None, "GET", f"/v1/jobs/{job}/wait?timeout_s={timeout_s}")
        assert answer.status == 200, answer
        return dict(answer.body)

    def until(self, condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Wait for it."""
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline, f"it did not come to this; the controller said:\n{self.said()}"
            time.sleep(0.05)


@contextlib.contextmanager
def controller(
    folder: Path, *words: str, before: Callable[[], None] | None = None, site: str = ""
) -> Iterator[RootController]:
    """One that lives; `folder` must be open to other accounts. `before`: done in its process first; `site`: its
    site file, where it is not to write its own."""
    one = RootController(folder / "place", *words, before=before)
    if site:
        one.place.mkdir(mode=0o755)
        (one.place / "site.toml").write_text(f'place = "."\n{site}')
    one.start()
    try:
        yield one
    finally:
        one.stop()


@contextlib.contextmanager
def shared_controller(before: Callable[[], None] | None = None, site: str = "") -> Iterator[RootController]:
    """One for all tests of a module, in a folder of its own that other accounts can pass."""
    folder = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    folder.chmod(0o711)
    try:
        with controller(folder, before=before, site=site) as one:
            yield one
    finally:
        shutil.rmtree(folder)
