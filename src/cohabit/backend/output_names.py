"""Names of output files with placeholders, and what a member of an array finds in its environment.

%j the job's id, %A the id of its array, %a its number in the array, %% a percent sign. The members of an array have
a file each in any case: where the name has neither %j nor %a the number is put behind it. No file is touched here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.backend.protocol import Launch

_PLACE = re.compile(r"%(.?)", re.DOTALL)
_OWN = ("a", "j")  # make the name of a member its own
_OF_ARRAYS = ("A", "a")
KNOWN = "%j (job), %A (array), %a (member) and %%"


def check(pattern: str, array: bool, where: str) -> None:
    """Refuse placeholders nobody can fill."""
    for found in _PLACE.finditer(pattern):
        if found[1] not in ("j", "%", *_OF_ARRAYS):
            raise InputError(f"{found[0]!r} is not known in the name of a file", where, f"there are {KNOWN}")
        if found[1] in _OF_ARRAYS and not array:
            raise InputError(f"{found[0]} is for members of arrays, and this job is none", where, "use %j")


def literal(path: str) -> str:
    """A path that means itself."""
    return path.replace("%", "%%")


def expand(pattern: str, job_id: str, launch: Launch) -> str:
    """The file of this job; what is no placeholder stays as it is."""
    member = number_of(job_id, launch)
    words = {"j": job_id, "%": "%"}
    if member is not None:
        words |= {"A": job_id.rpartition("_")[0], "a": str(member)}
    path = _PLACE.sub(lambda found: words.get(found[1], found[0]), pattern)
    named = any(found[1] in _OWN for found in _PLACE.finditer(pattern))
    return path if named or member is None or path.startswith("/dev/") else f"{path}.{member}"


def member_environment(job_id: str, launch: Launch) -> dict[str, str]:
    """Which member it is, and of how many; nothing for a job that is none."""
    member = number_of(job_id, launch)
    if member is None:
        return {}
    last = launch.array_first + launch.array_count - 1
    return {
        "COHABIT_ARRAY": job_id.rpartition("_")[0], "COHABIT_ARRAY_MEMBER": str(member),
        "COHABIT_ARRAY_FIRST": str(launch.array_first), "COHABIT_ARRAY_LAST": str(last),
        "COHABIT_ARRAY_SIZE": str(launch.array_count),
    }  # fmt: skip


def number_of(job_id: str, launch: Launch) -> int | None:
    """The number of a member; None: it is no array's."""
    number = job_id.rpartition("_")[2]
    return int(number) if launch.array_count and number.isdigit() else None
