"""Check the controller's requests, field by field. A request that is not exactly of this form is refused.

The controller parses what users send, so it is not trusted: every value is checked here again, by type, length and
range, before root acts on it. Paths that root opens itself are never taken from a request; names are. The words of a
command of a resource manager must have an allowed form; slurm_words.py and gridengine_words.py list the forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cohabit.launcher.wire import Message

NAME_MOST = 64  # bytes of a job's name
WORD_MOST = 128 << 10  # bytes of one word of a command; the kernel's limit
LIST_MOST = 65536
FILE_MOST = 8 << 20
JOBS_MOST = 1000  # jobs per request to remove outputs
CPU_MOST = 65536
STOPS = ("cancelled", "stopped")
RESCTRL_FILES = ("schemata", "tasks")
_GROUP = re.compile(r"cohabit\.(class[0-9]{1,6}|job\.[A-Za-z0-9_%~-]{1,240})")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_VARIABLE = re.compile(r"[^=\0]{1,4096}")
_SECONDS = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?)?")
ANY = r"(?s:.*)"  # option value of a command that runs as the owner of a job
NUMBER = r"[0-9]{1,18}"
ACCOUNT = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}"
MATES = r"[A-Za-z0-9._:+-]{1,64}"  # name of a group of jobs with mates
MARK = (  # what Cohabit records with a job (backend/steered/marks.py)
    rf"cohabit:(held(:open)?|back|run:{NUMBER}:{NUMBER}-{NUMBER}:{NUMBER}:{NUMBER}(:whole|:shared|:cores)?)"
    rf"(\+(stop|hold|noted|free))?(@{MATES})?"
)
PATIENCE = "COHABIT_THRESHOLD_PATIENCE_S"  # in the environment of a submission, for the threshold on its node

Check = Callable[[Any], Any]


class Refused(Exception):
    """The launcher refuses a request; the text says why. `number` is an errno where the system refused."""

    def __init__(self, said: str, number: int = 0) -> None:
        super().__init__(said)
        self.number = number


def checked(message: Message, fields: Mapping[str, Check]) -> Message:
    """Check every field of a request; a missing or unknown field is refused."""
    given = {key: value for key, value in message.items() if key not in ("id", "op")}
    if unknown := given.keys() - fields.keys():
        raise Refused(f"the request has an unknown field {sorted(unknown)[0]!r}")
    found = {}
    for key, check in fields.items():
        if key not in given:
            raise Refused(f"the request lacks {key!r}")
        try:
            found[key] = check(given[key])
        except (TypeError, ValueError, RecursionError) as error:
            raise Refused(f"{key} cannot be used: {error}") from None
    return found


def integer(least: int, most: int) -> Check:
    """Check for an integer in this range."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"not a whole number from {least} to {most}")
        return value

    return check


def truth(value: Any) -> bool:
    """Check for true or false."""
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def text(most: int, empty: bool = True) -> Check:
    """Check for text that can be a name or a word: no NUL, encodable, at most this many bytes."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("not a text")
        content = value.encode()  # a lone surrogate raises ValueError
        if b"\0" in content or len(content) > most or not (content or empty):
            raise ValueError(f"not a text of {0 if empty else 1} to {most} bytes without NUL")
        return value

    return check


def sequence(of: Check, most: int = LIST_MOST) -> Check:
    """Check for a list."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise ValueError(f"not a list of at most {most}")
        return [of(one) for one in value]

    return check


def table(key: Check, of: Check, most: int = LIST_MOST) -> Check:
    """Check for a table."""

    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise ValueError(f"not a table of at most {most}")
        return {key(name): of(one) for name, one in value.items()}

    return check


def one_of(words: tuple[str, ...]) -> Check:
    """Check for one of these words."""

    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"not one of {', '.join(words)}")
        return str(value)

    return check


def matching(pattern: re.Pattern[str], most: int) -> Check:
    """Check for a text of this form."""

    def check(value: Any) -> str:
        if not pattern.fullmatch(text(most)(value)):
            raise ValueError("not of the form that is allowed")
        return str(value)

    return check


def nodes(value: Any) -> list[list[Any]]:
    """Check for [[node, [cpu, ...]], ...]."""
    found = sequence(sequence(lambda one: one, 2))(value)
    if any(len(one) != 2 for one in found):
        raise ValueError("not a list of nodes with their CPUs")
    return [[NODE(number), CPUS(cpus)] for number, cpus in found]


def group_path(value: Any) -> str:
    """Check for a group of ours in resctrl, relative to its root: CLASS, CLASS/mon_groups/JOB or mon_groups/JOB."""
    parts = text(600, empty=False)(value).split("/")
    ours = [part for part in parts if part != "mon_groups"]
    shape = [part == "mon_groups" for part in parts]
    if shape not in ([False], [False, True, False], [True, False]) or not all(_GROUP.fullmatch(one) for one in ours):
        raise ValueError("not a group of ours")
    return str(value)


def join_path(value: Any) -> str:
    """Check for a group that the first process of a job enters through its `tasks` file; "": the root group."""
    return "" if value == "" else group_path(value)


JOB = text(NAME_MOST, empty=False)
ATTEMPT = integer(0, 2**31)
NODE = integer(0, 2**31)
CPUS = sequence(integer(0, CPU_MOST), CPU_MOST)
INSTANT = integer(-(2**62), 2**62)
UID = integer(-1, 2**32 - 2)
PATH = text(4096)
ENVIRONMENT = table(matching(_VARIABLE, 4096), text(WORD_MOST))
RUN: dict[str, Check] = {"job": JOB, "attempt": ATTEMPT}
PERSON: dict[str, Check] = {"uid": UID, "gid": UID, "groups": sequence(integer(0, 2**32 - 2))}
START = RUN | PERSON | {
    "command": sequence(text(WORD_MOST)), "environment": ENVIRONMENT, "folder": PATH, "stdout": PATH, "stderr": PATH,
    "files": table(matching(_FILE_NAME, 100), text(FILE_MOST)), "nodes": nodes, "cores_each": integer(0, CPU_MOST),
    "bandwidth_mbs": integer(0, 2**62), "limit_us": INSTANT, "grace_us": integer(0, 2**62),
    "memory_bytes": integer(0, 2**62), "joins": sequence(join_path, 2), "fuse_us": INSTANT,
}  # fmt: skip
PROBE = RUN | PERSON | {
    "framework": matching(_FILE_NAME, 100), "environment": ENVIRONMENT, "memory_bytes": START["memory_bytes"],
}  # fmt: skip
OUTPUT = RUN | PERSON | {"path": PATH}
REMOVE_OUTPUTS: dict[str, Check] = {"uid": UID, "jobs": sequence(JOB, JOBS_MOST), "dry_run": truth}
RESCTRL_WRITE: dict[str, Check] = {"group": group_path, "file": one_of(RESCTRL_FILES), "text": text(65536)}
GROUP: dict[str, Check] = {"group": group_path}
RESCTRL_MOVE: dict[str, Check] = {"source": group_path, "target": group_path}
STOP = RUN | {"why": one_of(STOPS)}
RENEW = RUN | {"fuse_us": INSTANT}
BIND = RUN | {"nodes": nodes}
COMMAND = PERSON | {
    "words": sequence(text(WORD_MOST), 4096), "given": text(FILE_MOST), "patience_s": integer(1, 600),
    "threshold_patience": matching(_SECONDS, 20),
}  # fmt: skip


def has_form(words: Sequence[str], form: Sequence[str]) -> bool:
    """Match word by word, each against its pattern."""
    return len(words) == len(form) and all(re.fullmatch(one, word) for one, word in zip(form, words, strict=True))


def check_any(words: Sequence[str], forms: Sequence[Sequence[str]]) -> None:
    """Refuse words that have none of these forms."""
    if not any(has_form(words, form) for form in forms):
        raise not_allowed(words)


def check_assignments(words: Sequence[str], allowed: Mapping[str, str | None], call: Sequence[str]) -> None:
    """Check KEY=VALUE words, each key from this list and at most once; None: the key has no value."""
    seen = set()
    for word in words:
        key, sign, value = word.partition("=")
        if key in seen or key not in allowed:
            raise not_allowed(call)
        seen.add(key)
        form = allowed[key]
        if (form is None) is bool(sign) or (form is not None and not re.fullmatch(form, value)):
            raise not_allowed(call)


def not_allowed(words: Sequence[str]) -> Refused:
    """Return the refusal of a call."""
    return Refused(f"this call is not on the list of what is run: {' '.join(words)[:80]!r}")
