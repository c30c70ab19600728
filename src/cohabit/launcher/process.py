"""Start a launcher. Done by a process with the rights the launcher is to have, before it gives up its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cohabit.launcher import wire

if TYPE_CHECKING:
    import subprocess

FOLDER, LOG = "launcher", "log"  # below the place: the launcher's own files
_PROGRAM = Path(__file__).with_name("serve.py")


class Begun(NamedTuple):
    """A launcher and the controller's end of the channel to it. Without a process it is not a child of this one."""

    process: subprocess.Popen[bytes] | None
    end: socket.socket


def begin(told: Mapping[str, Any], keep: Sequence[int] = ()) -> Begun:
    """Start a launcher with these settings (settings.py). Its errors go to PLACE/launcher/log. `keep`: descriptors that
    it keeps open for as long as it lives."""
    import subprocess  # not in the launcher (see serve.py)

    ours, theirs = wire.pair()
    own = Path(told["place"]) / FOLDER
    with contextlib.suppress(FileExistsError):
        own.mkdir(0o700, parents=True)
    log = os.open(own / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(theirs.fileno(), *keep),
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )
    finally:
        os.close(log)
        theirs.close()
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(told).encode())
    return Begun(process, ours)
