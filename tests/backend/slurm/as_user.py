"""The `cohabit` command as another user would give it: python -m tests.backend.slurm.as_user UID WORDS...

Only connecting is done as that user (the server asks the kernel who connected): where Python itself lies may be closed
to others.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

USER = int(sys.argv.pop(1))
_connect = socket.socket.connect


def connect(self: socket.socket, address: Any) -> None:
    os.setegid(USER)
    os.seteuid(USER)
    try:
        _connect(self, address)
    finally:
        os.seteuid(0)
        os.setegid(0)


if __name__ == "__main__":
    socket.socket.connect = connect  # type: ignore[method-assign, assignment]
    from cohabit.cli.main import run

    run()
