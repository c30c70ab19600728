"""Calling the command: in this process (quick, most tests) or as the real program (slow, few tests)."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("cohabit"))
VERBS = (
    "simulate", "compare", "sweep", "generate", "import", "policies", "profile", "profiles", "why", "view", "replay",
    "partition", "place", "match", "predict", "advise", "exercise", "measure", "telemetry", "demo", "doctor", "up",
    "controller", "submit", "queue", "show", "cancel", "hold", "release", "requeue", "change", "logs", "wait",
    "nodes", "page", "top", "report", "token", "audit", "backup", "restore", "prune", "slurm", "gridengine", "node",
)  # fmt: skip

# The contract's example on 10 nodes: B is the blocked head, C is the job that may pass it.
JOB_A = "1 0 -1 100 6 -1 -1 6 100 -1 1 1 1 1 1 1 -1 -1\n"
JOB_B = "2 1 -1 60 8 -1 -1 8 60 -1 1 2 1 1 1 1 -1 -1\n"
JOB_C = "3 2 -1 1000 2 -1 -1 2 1000 -1 1 1 1 1 1 1 -1 -1\n"
EXAMPLE = "; MaxNodes: 10\n" + JOB_A + JOB_B + JOB_C


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything else there is an error."""
        return json.loads(self.out)

    def sentence(self) -> str:
        """The one sentence of a refused call; fails on anything more, less or worse."""
        assert self.code == 2, self
        assert self.out == "", self.out
        assert "Traceback" not in self.err, self.err
        assert self.err.startswith("cohabit: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n"), self.err
        return self.err.removeprefix("cohabit: ").strip()


def cohabit(*arguments: str | Path) -> Answer:
    """Run the entry point here, as the console script would."""
    from cohabit.cli.main import run

    out, err, code = io.StringIO(), io.StringIO(), 0
    argv, thresholds = sys.argv, gc.get_threshold()
    sys.argv = ["cohabit", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                run()
            except SystemExit as leave:
                code = 0 if leave.code is None else int(leave.code)
    finally:
        sys.argv = argv
        gc.set_threshold(*thresholds)
    return Answer(code, out.getvalue(), err.getvalue())


def program(*arguments: str | Path, folder: Path | None = None, timeout: float = 120, **environment: str) -> Answer:
    """Run the real program."""
    import os

    done = subprocess.run(
        [COMMAND, *map(str, arguments)], cwd=folder, env=os.environ | environment, capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)
