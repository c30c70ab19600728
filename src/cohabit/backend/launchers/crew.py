"""A separate program: runs the processes of one job together, by the plan in a file. Standard library only.

    python -I -S crew.py PLAN        PLAN is JSON, written by crew_plan.py, which says what the fields mean

Servers start first; when all are ready, all workers start at once. Every process is bound to its cores between fork and
exec and has a process group of its own. When the workers have ended, or this program is asked to end, the servers are
stopped and no process is left. The exit status is the worst of the workers'.

It must never import the package: it runs as the job's user, on the job's time.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from types import FrameType
from typing import Any

GRACE_S = 1.5  # between asking a process to end and killing it; less than the back end's own
TICK_S = 0.05
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TOLD = re.compile("@cohabit:[a-z0-9]+@")  # placeholder for a value that was not known when the plan was made
libc = ctypes.CDLL(None, use_errno=True)
# On another machine: run the command in a group of its own, and end it when the connection is closed.
OVER_THERE = (
    'exec 3<&0; setsid "$@" </dev/null 3<&- & pid=$!; '
    "setsid sh -c 'cat <&3; kill -TERM -$0; sleep 1; kill -KILL -$0' $pid >/dev/null 2>&1 & watch=$!; exec 3<&-; "
    "wait $pid; status=$?; kill -KILL -$watch; exit $status"
)


class Crew:
    """The processes of a job."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.known = {f"@cohabit:port{at}@": str(port) for at, port in enumerate(free_ports(plan["ports"]))}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.servers: list[subprocess.Popen[bytes]] = []
        self.asked = 0  # the signal that asked us to end

    def run(self) -> int:
        """Carry out the plan; return the exit status."""
        try:
            for folder in self.plan["scratch"]:
                os.makedirs(folder, exist_ok=True)
            if not self.start_servers():
                return 128 + self.asked if self.asked else 1
            self.workers += [self.start(worker) for worker in self.plan["workers"]]
            return self.wait_workers()
        except OSError as error:
            say(f"{error.filename or ''}: {(error.strerror or str(error)).lower()}".lstrip(": "))
            return 127
        finally:
            stop(self.workers + self.servers[::-1])
            for folder in self.plan["scratch"]:
                shutil.rmtree(folder, ignore_errors=True)

    def start_servers(self) -> bool:
        """Start all servers, each as soon as its placeholders are known; False: one of them did not become ready."""
        starting: list[tuple[dict[str, Any], subprocess.Popen[bytes]]] = []
        for server in self.plan["servers"]:
            if any(TOLD.search(fill(word, self.known)) for word in server["argv"]):
                if not all(self.wait_ready(*one) for one in starting):
                    return False
                starting = []
            self.servers.append(self.start(server))
            starting.append((server, self.servers[-1]))
        return all(self.wait_ready(*one) for one in starting)

    def start(self, one: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Fork, set the group, bind, execute."""
        argv = [fill(word, self.known) for word in one["argv"]]
        added = {name: fill(text, self.known) for name, text in one["environment"].items()}
        stdin = subprocess.DEVNULL
        if one["remote"]:
            bound = ["taskset", "-c", ",".join(map(str, one["cores"]))] if one["cores"] else []
            there = ["env", *(f"{name}={text}" for name, text in added.items()), *bound, *argv]
            argv = [*one["remote"], quoted(["sh", "-c", OVER_THERE, "sh", *there])]
            stdin = subprocess.PIPE  # held open while this process lives

        def become() -> None:
            os.setpgid(0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if one["cores"] and not one["remote"]:
                os.sched_setaffinity(0, one["cores"])

        log = open(one["log"], "ab") if one["log"] else None  # noqa: SIM115
        try:
            return subprocess.Popen(
                argv, stdin=stdin, stdout=log, stderr=log, env=os.environ | added, preexec_fn=become
            )
        except subprocess.SubprocessError:
            say(f"{argv[0]} could not be bound to cores {one['cores']}: this job may not use them")
            raise OSError(0, "not started") from None
        finally:
            if log is not None:
                log.close()

    def wait_ready(self, server: dict[str, Any], running: subprocess.Popen[bytes]) -> bool:
        """Watch its log for the words that mean it is ready, and keep their named groups."""
        pattern, until = re.compile(server["ready"]), time.monotonic() + self.plan["patience_s"]
        while not self.asked:
            ended = running.poll() is not None
            with open(server["log"], errors="replace") as stream:
                found = pattern.search(stream.read())
            if found:
                self.known |= {f"@cohabit:{name}@": text for name, text in found.groupdict().items()}
                return True
            if ended or time.monotonic() > until:
                why = f"ended with status {code(running)}" if ended else "was not ready in time"
                say(f"{server['name']} {why}; the end of its log:")
                with open(server["log"], errors="replace") as stream:
                    sys.stderr.writelines(stream.readlines()[-20:])
                return False
            time.sleep(TICK_S)
        return False

    def wait_workers(self) -> int:
        """Wait until all workers have ended or, if they need each other, until one has failed."""
        descriptors = {os.pidfd_open(one.pid): one for one in self.workers}
        worst = 0
        while descriptors and not self.asked:
            for ready in select.select(list(descriptors), [], [], 1.0)[0]:
                one = descriptors.pop(ready)
                os.close(ready)
                one.wait()
                worst = max(worst, code(one))
            if worst and self.plan["together"] and descriptors:
                say(f"one of {len(self.workers)} processes ended with status {worst}: the others are stopped")
                return worst
            for server, running in zip(self.plan["servers"], self.servers, strict=True):
                if running.poll() is not None:
                    say(f"{server['name']} ended with status {code(running)} under the job; see {server['log']}")
                    return max(worst, 1)
        return 128 + self.asked if self.asked else worst


def free_ports(count: int) -> list[int]:
    """Return ports that are free on this machine; all are held until all are found, so that they differ."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def fill(text: str, known: dict[str, str]) -> str:
    """Replace placeholders by values that became known since the plan was made."""
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def quoted(argv: list[str]) -> str:
    """Return the command as one word for a remote shell."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv)


def code(process: subprocess.Popen[bytes]) -> int:
    """Return its exit status as a shell reports it."""
    status = int(process.returncode)
    return 128 - status if status < 0 else status


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Ask every group to end, then kill it, then kill descendants that left their group: we are their reaper."""
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 0.0)):
        for one in processes:
            with contextlib.suppress(OSError):
                os.killpg(one.pid, number)
        until = time.monotonic() + patience_s
        while time.monotonic() < until and any(one.poll() is None for one in processes):
            time.sleep(TICK_S)
    while left := children():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:  # it changed its user; waiting for it would never end
                return
            except ProcessLookupError:
                continue
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def children() -> list[int]:
    """Return living and dead direct children; not every kernel lists them, so all processes are read."""
    me, found = os.getpid(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
            if int(stream.read().rpartition(b")")[2].split()[1]) == me:
                found.append(int(name))
    return found


def say(sentence: str) -> None:
    """Print a message for the job's owner into the job's output."""
    sys.stderr.write(f"cohabit: {sentence}\n")
    sys.stderr.flush()


def main() -> int:
    """Read the plan and carry it out."""
    with open(sys.argv[1]) as stream:
        crew = Crew(json.load(stream))
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def ask(number: int, _frame: FrameType | None) -> None:
        crew.asked = crew.asked or number

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask)
    return crew.run()


if __name__ == "__main__":
    sys.exit(main())
