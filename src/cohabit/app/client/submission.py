"""Prepare a user's submission for the wire: command or script, environment, memory, mates.

A script's own options are in lines `#COHABIT --limit 1h` before its first command. The file itself is not copied: it is
executed as it is when the job starts. Only the requested environment leaves this process.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from cohabit.model.errors import InputError
from cohabit.model.texts import wrong_in_variable, wrong_in_word

MARK = "#COHABIT"
ALL = "ALL"
LARGEST_SCRIPT = 1 << 20
SENT = (
    "CONDA_PREFIX", "HOME", "JAVA_HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOADEDMODULES", "LOGNAME", "MANPATH",
    "MODULEPATH", "OMP_NUM_THREADS", "PATH", "PKG_CONFIG_PATH", "PYTHONHOME", "PYTHONPATH", "SHELL", "SPARK_HOME",
    "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip  # what makes a program run there as it runs here, and no secrets
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_ARRAY = re.compile(r"(\d+)-(\d+)(?:%(\d+))?")


def is_script(word: str) -> str | None:
    """Return the file if the first word of a command is a script with `#!` or `#COHABIT` lines at its top."""
    if "/" not in word and find_program(word):
        return None
    path = os.path.expanduser(word)
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_SCRIPT:
            return None
        with open(path, "rb") as stream:
            top = stream.read(4096)
    except OSError:
        return None
    return path if top.startswith(b"#!") or MARK.encode() in top else None


def script_options(path: str) -> list[tuple[int, list[str]]]:
    """Return (line number, words) of every `#COHABIT` line before the first command."""
    import shlex

    try:
        with open(path, errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", path) from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith(MARK):
            rest = line.removeprefix(MARK)
            if rest and not rest[0].isspace():
                continue
            try:
                found.append((number, shlex.split(rest, comments=True)))
            except ValueError as error:
                raise InputError(f"cannot be read: {error}".lower(), f"{path}, line {number}") from None
    return found


def executable_command(words: list[str]) -> list[str]:
    """Return the command with its file resolved from here: a script that is not executable is given to its shell."""
    first = words[0]
    path = os.path.expanduser(first)
    if "/" not in first and (find_program(first) or not os.path.isfile(path)):
        return words
    full = os.path.abspath(path)
    if os.path.isfile(path) and not os.access(path, os.X_OK) and is_script(first) is not None:
        import shlex

        with open(path, errors="replace") as stream:
            top = stream.readline()
        interpreter = shlex.split(top[2:]) if top.startswith("#!") else []
        return [*(interpreter or ["sh"]), full, *words[1:]]
    return [full, *words[1:]]


def find_program(name: str, path: str | None = None) -> str | None:
    """Find a program as shutil.which does, without the imports of shutil."""
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in searched.split(os.pathsep) if searched else []:
        file = os.path.join(folder, name)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None


def environment(export: str | None) -> dict[str, str]:
    """Return the job's environment: by default what programs need, else everything, or the names given."""
    chosen = {name: os.environ[name] for name in os.environ if name in SENT or name.startswith("LC_")}
    for word in (export or "").split(","):
        name, equals, value = word.strip().partition("=")
        if name == ALL and not equals:
            chosen |= {key: text for key, text in os.environ.items() if not key.startswith("COHABIT_")}
        elif equals and name:
            chosen[name] = value
        elif name in os.environ:
            chosen[name] = os.environ[name]
        elif name:
            raise InputError(f"there is no variable {name} here", "--export", "set it, or write NAME=VALUE")
    for name, value in chosen.items():
        if wrong := wrong_in_variable(name) or wrong_in_word(value):
            raise InputError(f"the variable {name!r} cannot be sent: {wrong}", "environment", "unset it, or correct it")
    return chosen


def memory_mb(text: str) -> int:
    """Parse 512, 512M or 4G, in MB (of 1024 x 1024 bytes)."""
    found = _MEMORY.fullmatch(text.strip())
    if not found:
        raise InputError(f"{text!r} is not an amount of memory", "--mem", "write 512 (MB) or 4G")
    return math.ceil(float(found[1]) * _MB[found[2].upper()])


def check_files(command: list[str], folder: str, path: str) -> None:
    """Refuse missing files on the scheduler's own machine: a job without dependencies would not find them either."""
    if not os.path.isdir(folder):
        raise InputError("there is no such folder", folder, "name another with --chdir")
    if command[0].startswith("/") and not os.path.exists(command[0]):
        raise InputError("there is no such program", command[0], "check its name and the folder you are in")
    if "/" not in command[0] and find_program(command[0], path) is None:
        raise InputError("there is no such program in PATH", command[0], "check its name, or give its whole path")


def check_array(text: str) -> str:
    """Check A-B or A-B%K and return it in the server's form."""
    found = _ARRAY.fullmatch(text.strip())
    if not found or int(found[2]) < int(found[1]) or found[3] == "0":
        raise InputError(f"{text!r} is not a range of indices", "--array", "write 1-10, or 1-10%2 for two at a time")
    return text.strip()


def group_with(mate: str, name: str | None, here: str | None) -> dict[str, Any]:
    """Return the group of two of `--mate DOMAIN:JOB`; both sides derive the same name for it."""
    domain, _, job = mate.partition(":")
    if not (domain and job):
        raise InputError(f"{mate!r} names no job elsewhere", "--mate", "write DOMAIN:JOB")
    if name is None:
        raise InputError("a job with a mate needs a name the other side can give", "--mate", "add --name NAME")
    members = _at_home({_domain(here, "--mate"): name} | {domain: job}, here, "--mate")
    return {"name": "+".join(f"{one}:{members[one]}" for one in sorted(members)), "members": members}


def group_of(text: str, here: str | None) -> dict[str, Any]:
    """Parse NAME@DOMAIN,...: one job in each domain, called NAME unless it says DOMAIN:JOB."""
    name, at, rest = text.partition("@")
    members: dict[str, str] = {}
    for word in rest.split(","):
        domain, _, job = word.strip().partition(":")
        if not domain or domain in members:
            raise InputError(f"{text!r} is not a group", "--group", "write NAME@DOMAIN,DOMAIN")
        members[domain] = job or name
    if not (name and at):
        raise InputError(f"{text!r} is not a group", "--group", "write NAME@DOMAIN,DOMAIN")
    _domain(here, "--group")
    return {"name": name, "members": _at_home(members, here, "--group")}


def _domain(here: str | None, option: str) -> str:
    if not here:
        fix = "give its site file a [domain] and [peer]s: docs/live-reference.md"
        raise InputError("this scheduler has no other domains to start jobs with", option, fix)
    return here


def _at_home(members: dict[str, str], here: str | None, option: str) -> dict[str, str]:
    if len(members) < 2 or here not in members:
        raise InputError(f"the jobs are to be in this domain ({here}) and in others", option, "name each once")
    return members
