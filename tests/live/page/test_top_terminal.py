"""`cohabit top` in a real pseudo-terminal: keys sort, filter, search, pause, leave; the terminal is left as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from cohabit.cli.top_keys import keys_in
from tests.live.api.serving import Server

pytestmark = pytest.mark.system
PATIENCE_S = 60.0
FRAME = re.compile(rb"\x1b\[H")  # each begins in the upper left corner
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A person before a screen of 160 by 40."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self._theirs, self.before = theirs, termios.tcgetattr(theirs)
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cohabit.cli", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C reaches it
        )  # fmt: skip
        self._seen = b""

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def screen(self) -> str:
        """The latest whole frame, without colours."""
        frames = FRAME.split(self._seen)
        return STYLE.sub("", frames[-2].decode(errors="replace")) if len(frames) > 2 else ""

    def see(self, pattern: str, absent: str = "") -> str:
        """Wait until the screen shows this, and not that."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            screen = self.screen()
            if re.search(pattern, screen) and not (absent and re.search(absent, screen)):
                return screen
            self._read(0.2)
        raise AssertionError(f"not seen: {pattern}; the screen was\n{self.screen()}")

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._ours], [], [], patience_s)[0]:
            return False
        self._seen = (self._seen + os.read(self._ours, 65536))[-400_000:]
        return True

    def ended(self) -> int:
        """Its exit status; what it still says is read, or it could not end."""
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        return int(self.process.wait(1))

    @property
    def as_it_was(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(server: Server) -> Iterator[Terminal]:
    one = Terminal("top", "--server", server.path, "--every", "0.3s")
    yield one
    one.close()


@pytest.fixture(scope="module", autouse=True)
def jobs(server: Server) -> Iterator[None]:
    names = [server.submit("sleep 600", name="runs-long", program="needle", limit_s=600)]
    for place, program, processes in (("one", "hay", 1), ("two", "straw", 2), ("three", "hay", 1)):
        names.append(server.submit("exit 0", name=f"waits-{place}", program=program, hold=True, processes=processes))
    yield
    for name in names:
        server.ask("POST", f"/v1/jobs/{name}/cancel")


def test_keys_change_what_is_shown_at_once(terminal: Terminal) -> None:
    terminal.see(r"runs-long[\s\S]*waits-one[\s\S]*waits-two")
    terminal.press("w")
    terminal.see("waiting only", absent=r"runs-long +\S+ +needle")
    terminal.press("r")
    terminal.see(r"running only[\s\S]*runs-long +\S+ +needle", absent="waits-")
    terminal.press("a")
    terminal.see("waits-one")
    terminal.press("sss")  # several at once: by cores
    screen = terminal.see("sorted by cores")
    assert screen.index("waits-two") < screen.index("waits-one")
    terminal.press("i")
    screen = terminal.see("sorted by cores, reversed")
    assert screen.index("waits-one") < screen.index("waits-two")
    terminal.press("S" * 3 + "i")
    terminal.see("waits-one", absent="sorted by")


def test_a_search_is_typed_kept_and_dropped(terminal: Terminal) -> None:
    terminal.see("waits-two")
    terminal.press("/straw")  # s, a, w and r are letters now
    terminal.see(r"search: straw_[\s\S]*waits-two", absent="waits-one")
    terminal.press("\r")
    terminal.see(r"search: straw\s", absent=r"waits-one|runs-long +\S+ +needle")
    terminal.press("/\x7f\x7f\x7f\x7f\x7fhay")
    terminal.see(r"search: hay_[\s\S]*waits-three", absent="waits-two")
    terminal.press("\x1b")
    terminal.see("waits-two", absent="search:")


def test_nodes_help_and_pause(terminal: Terminal, server: Server) -> None:
    terminal.see("cores in use")
    terminal.press("n")
    terminal.see("waits-one", absent="█|····")
    terminal.press("n")
    terminal.see("q leave · s sort · / search")
    terminal.press("?p")
    terminal.see("paused", absent="s sort")
    server.submit("exit 0", name="came-later", hold=True)
    terminal.press("n")  # it still listens to keys
    assert "came-later" not in terminal.see("paused", absent="█|····")
    terminal.press("pn")
    terminal.see("came-later", absent="paused")
    server.ask("POST", "/v1/jobs/came-later/cancel")


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_leaving_gives_the_terminal_back(terminal: Terminal, key: str) -> None:
    terminal.see("waits-one")
    assert not terminal.as_it_was
    terminal.press("\x1b[A\x1b[B\x1b[5~")  # arrows do not leave
    terminal.press("w")
    terminal.see("waiting only")
    terminal.press(key)
    assert terminal.ended() in (0, 130)
    assert terminal.as_it_was


def test_what_a_terminal_sends_at_once_is_several_keys() -> None:
    assert keys_in("ws") == ["w", "s"]
    assert keys_in("\x1b[Aq\x1bOB") == ["q"]
    assert keys_in("\x1b") == ["\x1b"]
    assert keys_in("/ä\r") == ["/", "ä", "\r"]
    assert keys_in("\x1b[15~\x1b[1;5C") == []
