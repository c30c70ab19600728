"""All launchers by name. Adding one takes a file in this folder and a line here; the tests run over the table."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cohabit.model.errors import InputError
from cohabit.model.texts import LONGEST_NAME, one_line

if TYPE_CHECKING:
    from cohabit.backend.launchers.contract import Launcher


class LauncherEntry(NamedTuple):
    """The module of a launcher, and its description for users."""

    module: str
    summary: str


_HERE = "cohabit.backend.launchers."
LAUNCHERS: dict[str, LauncherEntry] = {
    "plain": LauncherEntry(_HERE + "plain", "the command as it stands, once, on the first node"),
    "mpi": LauncherEntry(_HERE + "mpi", "MPI ranks under Open MPI or MPICH, each bound to its cores"),
    "spark": LauncherEntry(_HERE + "spark", "a standalone Spark cluster for the time of the job"),
    "tensorflow": LauncherEntry(_HERE + "tensorflow", "thread pools to the cores; TF_CONFIG on several nodes"),
    "pytorch": LauncherEntry(_HERE + "pytorch", "threads to the cores; torchrun on several nodes"),
    "replicated": LauncherEntry(
        _HERE + "replicated", "one copy per core, each with its index; the worst status counts"
    ),
}
SYNONYMS = {"replicate": "replicated", "tf": "tensorflow", "torch": "pytorch", "openmpi": "mpi", "mpich": "mpi"}


def find_launcher(name: str) -> Launcher:
    """Return the launcher of that name."""
    launcher: Launcher = importlib.import_module(LAUNCHERS[known_name(name)].module).prepare
    return launcher


def known_name(name: str) -> str:
    """Return a launcher's own name; refuse any other. No launcher is loaded."""
    own = SYNONYMS.get(name, name)
    if own not in LAUNCHERS:
        import difflib

        near = difflib.get_close_matches(name, [*LAUNCHERS, *SYNONYMS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(LAUNCHERS)}"
        raise InputError(f"there is no framework called {name!r}", "--framework", hint)
    return own


def choose(command: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return (launcher, command) if the command itself leaves no doubt; otherwise it is a plain one.

    Only a framework's own starter without options of its own leaves no doubt: with options the user has decided how to
    start the program, and a program's name or its arguments prove nothing.
    """
    word = command[0].rpartition("/")[2] if command else ""
    rest = command[1:]
    bare = bool(rest) and not rest[0].startswith("-")
    if bare and re.fullmatch(r"mpirun|mpiexec", word):
        return "mpi", rest
    if bare and word == "torchrun":
        return "pytorch", command
    if bare and word == "spark-submit":
        return "spark", command
    return "plain", command


def program_of(command: Sequence[str]) -> str:
    """Return the program name for learning where none is given: the base name of what the command runs."""
    word = choose(tuple(command))[1][0]
    return one_line(os.path.basename(word.rstrip("/")) or word, LONGEST_NAME)
