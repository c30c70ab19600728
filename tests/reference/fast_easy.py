"""Compile and run textbook_easy.c, for cross-checks on traces too large for the plain Python reference."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tests.reference.textbook import Job

SOURCE = Path(__file__).with_name("textbook_easy.c")


def compiler() -> str | None:
    """A C compiler, or None (then callers skip: install gcc or clang)."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@lru_cache(maxsize=1)
def _program() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler; install gcc or clang")
    folder = tempfile.TemporaryDirectory(prefix="textbook_easy_")
    program = Path(folder.name) / "textbook_easy"
    subprocess.run([cc, "-O2", "-std=c99", "-Wall", "-Wextra", "-o", str(program), str(SOURCE)], check=True)
    return folder, program  # the folder goes away with the cache, at interpreter exit


def fast_easy_starts(jobs: Iterable[Job], nodes: int, *, kill: bool = True, tick: int = 1) -> list[int | None]:
    """Start times under FCFS + EASY in file order; None for a rejected job."""
    _, program = _program()
    text = "".join(f"{job.submit} {job.run} {job.limit} {job.size}\n" for job in jobs)
    command = [str(program), str(nodes), str(int(kill)), str(tick)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [None if word == "-" else int(word) for word in done.stdout.split()]
