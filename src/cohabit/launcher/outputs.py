"""Remove outputs of jobs that are over and that the site does not keep any longer.

A request names jobs, never paths. Only `output/NAME.out`, or `output/UID/NAME.out` where jobs run as their owners, can
be removed. The folder of a user belongs to that user and may contain anything under such a name: only plain files are
removed, no link is followed, and a job that has a run folder keeps its output.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cohabit.launcher import wire
from cohabit.launcher.runs import file_name, opened
from cohabit.launcher.settings import Users

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_outputs(users: Users, runs: Path, output: Path, request: wire.Message) -> dict[str, Any]:
    """Remove outputs; return how many files and bytes went and what was left alone; in a dry run: what would go."""
    person = users.person(request["uid"], -1, ())
    files = size = 0
    left: list[str] = []
    busy = {entry.lstrip(".").partition(".")[0] for entry in os.listdir(runs)}
    try:
        with _opened_folder(output, person) as folder:
            for job in request["jobs"]:
                found = _remove(folder, job, file_name(job) in busy, request["dry_run"])
                if isinstance(found, str):
                    left.append(f"job {job}: {found}")
                elif found is not None:
                    files, size = files + 1, size + found
    except FileNotFoundError:
        pass  # no job of this user has ever written output
    return {"files": files, "bytes": size, "left": left}


@contextmanager
def _opened_folder(output: Path, person: Mapping[str, Any] | None) -> Iterator[int]:
    with opened(output, _FOLDER) as outer:
        if person is None:
            yield outer
        else:
            with opened(str(person["uid"]), _FOLDER, dir_fd=outer) as inner:
                yield inner


def _remove(folder: int, job: str, busy: bool, dry_run: bool) -> int | str | None:
    """Remove one output; return its bytes, a text that says why it is left alone, or None if there is none."""
    name = f"{file_name(job)}.out"
    try:
        known = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if busy:
            return "it has a run that is not over"
        if not stat.S_ISREG(known.st_mode):
            return "its output is not a plain file"
        if not dry_run:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return known.st_blocks * 512
