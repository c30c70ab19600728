"""The launcher process: receives requests of one controller, checks them, carries them out, reports runs.

    python -I -S serve.py DESCRIPTOR     the end of the channel; settings as JSON on standard input

Every request has an `id`, and its answer has the same; `REQUESTS` below is the whole list. Reports: `open` when it
serves, or `unable` with the reason; `started` and `ended` of runs; `said` for messages to people. It ends with its
controller; runners do not.

Each run costs two forks of this process, so it stays small. `threading` (and `subprocess`, which imports it) is not
imported here: its work after a fork touches as many pages as the rest of a runner does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys

sys.path.append(os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")))  # last: nothing is hidden
from cohabit.agent import control_groups
from cohabit.launcher import requests, runner, wire
from cohabit.launcher.cache import Resctrl
from cohabit.launcher.channel import LATER, Answer, Channel, failed
from cohabit.launcher.managing import Managers
from cohabit.launcher.meter import Meter
from cohabit.launcher.outputs import remove_outputs
from cohabit.launcher.requests import Check, Refused
from cohabit.launcher.settings import Settings
from cohabit.launcher.supervising import Supervisor

TICK_MS = 250  # interval of looks while there is something to look for


class Launcher:
    """The launcher of one place."""

    def __init__(self, told: wire.Message, end: socket.socket) -> None:
        self.settings, self.poll = (settings := Settings.of(told)), select.poll()
        self.channel = Channel(end, lambda: self.runs.private())
        meter, managers = Meter(), Managers(told)
        resctrl = Resctrl(settings.resctrl, settings.users)
        self.runs = Supervisor(settings, self.channel, self.poll, meter, resctrl.group)
        child, runs = self.channel.in_child, self.runs
        places = settings.users, runs.runs, runs.output
        self.answers: dict[str, tuple[dict[str, Check], Answer]] = {
            "start": (requests.START, runs.start),
            "stop": (requests.STOP, runs.stop),
            "renew": (requests.RENEW, runs.renew),
            "bind": (requests.BIND, child(runs.bind)),
            "settle": (requests.RUN, runs.settle),
            "observe": ({}, runs.observe),
            "threads": (requests.RUN, runs.threads),
            "probe": (requests.PROBE, child(runs.probe)),
            "open_output": (requests.OUTPUT, child(lambda one: (True, runs.open_output(one)), descriptor=True)),
            "remove_outputs": (requests.REMOVE_OUTPUTS, child(lambda one: remove_outputs(*places, one))),
            "resctrl_make": (requests.GROUP, resctrl.make),
            "resctrl_remove": (requests.GROUP, resctrl.remove),
            "resctrl_move": (requests.RESCTRL_MOVE, resctrl.move),
            "resctrl_write": (requests.RESCTRL_WRITE, resctrl.write),
            "meter_begin": (requests.RUN, lambda one: meter.begin(runs.folder(one))),
            "meter_sample": (requests.RUN, lambda one: meter.sample((one["job"], one["attempt"]))),
            "command": (requests.COMMAND, child(lambda one: managers.run(one, settings.users), descriptor=True)),
            "watchdog": ({}, child(managers.open_channel, descriptor=True)),
        }

    def open(self) -> None:
        """Get ready and report it."""
        if self.settings.runs:
            self.runs.open()
        self.channel.report({"event": "open", "limits": list(self.runs.offer.limits)})

    def serve(self) -> None:
        """Serve until the controller has gone."""
        self.poll.register(self.channel.end, select.POLLIN)
        while True:
            for descriptor, _ in self.poll.poll(TICK_MS if self.runs.busy or self.channel.waiting else None):
                if descriptor in self.runs.runners:
                    self.runs.heard(descriptor)
                elif descriptor == self.channel.end.fileno() and not self.hear():
                    return
            self.channel.flush()
            self.runs.look()

    def close(self) -> None:
        """Remove the socket of a controller that has gone; runs go on."""
        with contextlib.suppress(OSError):
            if self.settings.socket and os.lstat(self.settings.socket).st_ino == self.settings.socket_inode:
                os.unlink(self.settings.socket)
        control_groups.tidy_up(self.runs.offer)

    def hear(self) -> bool:
        """Handle one request; False: there will be no more."""
        try:
            found = wire.receive(self.channel.end, wait=False)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        except wire.BadMessage as error:
            self.channel.say(f"the launcher was asked for something it does not understand: {error}")
            return True
        if found is None:
            return False
        message, descriptors = found
        wire.close(descriptors)  # no request has descriptors
        self.answer(message)
        return True

    def answer(self, message: wire.Message) -> None:
        """Check a request, carry it out, answer it."""
        number = message.get("id")
        try:
            known = self.answers.get(str(message.get("op")))
            if known is None or type(number) is not int:
                raise Refused(f"the launcher knows no request {str(message.get('op'))[:40]!r}")
            fields, act = known
            found = act(requests.checked(message, fields) | {"id": number})
        except Exception as error:
            self.channel.report(failed(number, error))
        else:
            if found is not LATER:
                self.channel.report({"id": number, "ok": found})


def main() -> None:
    """Read settings from the process that started it, then requests from the controller."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children answer by themselves
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (runner.POKE, *runner.STOPPING))  # for runners that are not ready yet
    os.umask(0o022)
    with open(0, closefd=False) as stream:
        told = json.load(stream)
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    launcher = Launcher(told, end)
    try:
        launcher.open()
    except (Refused, OSError) as error:
        launcher.channel.report({"event": "unable", "text": failed(0, error)["error"]})
        return
    gc.collect()
    gc.freeze()  # a collection after a fork would copy every page that it looks at
    launcher.serve()
    launcher.close()


if __name__ == "__main__":
    main()
