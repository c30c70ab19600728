"""Supervise one launched program and everything it forks: start it held, release it on order, kill and reap it whole.

It is a script of its own (only the standard library and process_tree.py, started by path without site packages), not a
function forked off its caller: a caller with threads must not run Python between fork and exec. When the caller dies,
even by kill -9, the order pipe closes and the tree is killed. It must never outlive its program.

Orders on standard input: the request as JSON with its length before it, then single letters: g go, t terminate.
Reports on standard output, a JSON line each: {"pid"} once the program is bound and held, {"step", "errno"} where it
could not be prepared or executed, and the end: {"status", "run_s", "user_s", "system_s", "peak_rss_bytes", "leftovers"}
"""

import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

sys.path.append(os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))  # last: nothing is hidden
from cohabit.agent.launch.process_tree import Tree, begin_fresh, watch_over_children

ORDERS, REPORTS = 0, 1
GRACE_S = 2.0  # between asking a program to end and killing it


def report(**facts: Any) -> None:
    """Write one line to the caller; if the caller is gone, none is needed."""
    try:
        os.write(REPORTS, json.dumps(facts).encode() + b"\n")
    except OSError:
        return


def read_exactly(length: int) -> bytes:
    """Read this many bytes of the orders; a closed pipe means that the caller is gone."""
    found = b""
    while len(found) < length:
        more = os.read(ORDERS, length - len(found))
        if not more:
            sys.exit(0)
        found += more
    return found


class Program(Tree):
    """The launched program: its process, the gate it waits behind, and when it began and ended."""

    def __init__(self, request: dict[str, Any]) -> None:
        gate, self.gate = os.pipe()
        self.faults, faults = os.pipe()
        self.began_s = 0.0
        super().__init__(os.fork())
        if self.pid == 0:
            os.close(self.gate)
            become(request, gate, faults)
        os.close(gate)
        os.close(faults)

    def await_held(self) -> bool:
        """Return whether the program is prepared and waits at the gate; otherwise the reason has been reported."""
        word = os.read(self.faults, 4096)
        if word == b"held":
            report(pid=self.pid)
            return True
        self.tell_fault(word)
        return False

    def tell_fault(self, word: bytes) -> None:
        step, _, number = word.decode().rpartition(" ")
        report(step=step or "start", errno=int(number or 0))

    def release(self) -> bool:
        """Open the gate; the end of the fault pipe shows that exec took place."""
        self.began_s = time.monotonic()
        os.write(self.gate, b"g")
        os.close(self.gate)
        word = os.read(self.faults, 4096)
        if word:
            self.tell_fault(word)
        return not word

    def give_up(self) -> None:
        """Kill everything; a program that we may not kill counts as killed, because waiting for it would never end."""
        self.kill_all()
        if self.status is None:
            self.ended_s, self.status = time.monotonic(), -signal.SIGKILL


def become(request: dict[str, Any], gate: int, faults: int) -> NoReturn:
    """Turn this child into the program: own session, cores, files; then wait at the gate and exec."""
    step = "start"
    try:
        begin_fresh()
        step = "bind to cores"
        if request["cores"]:
            os.sched_setaffinity(0, request["cores"])
        step = "open its output"
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, key in ((1, "stdout"), (2, "stderr")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(request[key] or os.devnull, flags, 0o644), descriptor)
        step = "enter its folder"
        if request["folder"]:
            os.chdir(request["folder"])
        step = "start"
        os.write(faults, b"held")
        if os.read(gate, 1) != b"g":
            os._exit(126)
        os.execve(request["path"], request["command"], request["environment"])
    except OSError as error:
        os.write(faults, f"{step} {error.errno or 0}".encode())
    finally:
        os._exit(127)


def serve(program: Program, woken: int) -> None:
    """Follow orders until the program has ended; then kill what it left behind and report."""
    deadline: float | None = None
    while program.status is None:
        patience = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([ORDERS, woken], [], [], patience)
        if woken in ready:
            os.read(woken, 4096)
            program.reap()
        if ORDERS in ready:
            order = os.read(ORDERS, 1)
            if order == b"g":
                if not program.release():
                    program.kill_all()
                    return
            elif order == b"t":
                program.signal(signal.SIGTERM)
                deadline = time.monotonic() + GRACE_S
            else:  # the caller is gone
                program.give_up()
        elif not ready:
            program.give_up()
    leftovers = program.kill_all()
    report(
        status=program.status,
        run_s=program.ended_s - program.began_s if program.began_s else 0.0,
        user_s=program.user_s,
        system_s=program.system_s,
        peak_rss_bytes=program.peak_rss_bytes,
        leftovers=leftovers,
    )


def main() -> None:
    """Start one program as the caller asks, and report on it."""
    woken = watch_over_children()
    length = int(read_exactly(8))
    program = Program(json.loads(read_exactly(length)))  # and not a byte more: orders follow
    if program.await_held():
        serve(program, woken)


if __name__ == "__main__":
    main()
