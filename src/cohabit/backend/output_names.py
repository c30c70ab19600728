"""Names of output files with placeholders, and the environment variables of an array member.

%j the job's id, %A the id of its array, %a its number in the array, %% a percent sign. The members of an array have a
file each in any case: where the name has neither %j nor %a the number is appended. No file is touched here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.backend.protocol import Launch

_PLACE = re.compile(r"%(.?)", re.DOTALL)
_OWN = ("a", "j")  # placeholders that make the name of a member unique
_OF_ARRAYS = ("A", "a")
KNOWN = "%j (job), %A (array), %a (member) and %%"


def check(pattern: str, array: bool, where: str) -> None:
    """Refuse placeholders that have no value."""
    for found in _PLACE.finditer(pattern):
        if found[1] not in ("j", "%", *_OF_ARRAYS):
            raise InputError(f"{found[0]!r} is not known in the name of a file", where, f"there are {KNOWN}")
        if found[1] in _OF_ARRAYS and not array:
            raise InputError(f"{found[0]} is for members of arrays, and this job is none", where, "use %j")


def literal(path: str) -> str:
    """Return a pattern that stands for exactly this path."""
    return path.replace("%", "%%")


def expand(pattern: str, job_id: str, launch: Launch) -> str:
    """Return the file of this job; text that is no placeholder stays as it is."""
    member = number_of(job_id, launch)
    words = {"j": job_id, "%": "%"}
    if member is not None:
        words |= {"A": job_id.rpartition("_")[0], "a": str(member)}
    path = _PLACE.sub(lambda found: words.get(found[1], found[0]), pattern)
    named = any(found[1] in _OWN for found in _PLACE.finditer(pattern))
    return path if named or member is None or path.startswith("/dev/") else f"{path}.{member}"


def member_environment(job_id: str, launch: Launch) -> dict[str, str]:
    """Return the member's number and the number of members; empty for a job that is not a member."""
    member = number_of(job_id, launch)
    if member is None:
        return {}
    last = launch.array_first + launch.array_count - 1
    return {
        "COHABIT_ARRAY": job_id.rpartition("_")[0],
        "COHABIT_ARRAY_MEMBER": str(member),
        "COHABIT_ARRAY_FIRST": str(launch.array_first),
        "COHABIT_ARRAY_LAST": str(last),
        "COHABIT_ARRAY_SIZE": str(launch.array_count),
    }


def number_of(job_id: str, launch: Launch) -> int | None:
    """Return the number of a member; None if the job is not in an array."""
    number = job_id.rpartition("_")[2]
    return int(number) if launch.array_count and number.isdigit() else None
