"""The batch script of a job that is submitted for its owner: it sets the owner's environment and executes the command.

The environment is data in the script. The command that submits never sees it, so no variable of the owner acts on that
command, be it as an option (SBATCH_...) or as code (LD_PRELOAD, PATH). What the manager sets for a job is left as it
is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from cohabit.model.errors import InputError

PATH = "/usr/local/bin:/usr/bin:/bin"  # for a job without a PATH of its owner
MOST_BYTES, MOST_OF_ONE = 2**20, 2**17 - 1  # the kernel's limits for a command
PATIENCE = "COHABIT_THRESHOLD_PATIENCE_S"  # read before the script starts (packaging/threshold)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = ("PWD", "OLDPWD", "SHLVL", "_")
# Names that some shells do not let a script set: env(1) passes them to the command, with those that no shell can set.
_NOT_BY_SHELL = (
    "UID", "EUID", "PPID", "GROUPS", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "OPTIND", "LINENO", "RANDOM", "SECONDS",
)  # fmt: skip


def batch_script(
    first_line: str, environment: Mapping[str, str], of_manager: re.Pattern[str], lines: str, command: Sequence[str]
) -> str:
    """Return the script. `of_manager`: names that keep the manager's value; `lines`: more of it, before the command.
    InputError: this environment cannot be given to a job."""
    check_environment(environment)
    told, passed = [], []
    for key, value in environment.items():
        if key in _SHELLS_OWN:
            continue
        if _NAME.fullmatch(key) is None or key in _NOT_BY_SHELL:
            passed.append(f"{key}={value}")
        elif of_manager.fullmatch(key):
            told.append(f'[ -n "${{{key}+set}}" ] || export {key}={shlex.quote(value)}\n')
        else:
            told.append(f"export {key}={shlex.quote(value)}\n")
    through = f"/usr/bin/env {shlex.join(passed)} " if passed else ""
    return f"{first_line}/bin/sh\n{''.join(told)}{lines}exec {through}{shlex.join(command)}\n"


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuse an environment that no process can have."""
    total = 0
    for key, value in environment.items():
        try:
            size = len(f"{key}={value}".encode())
        except UnicodeEncodeError:
            raise InputError("has bytes that are not text", f"environment: {key!r}", "leave it out") from None
        if not key or "=" in key or "\0" in key + value:
            raise InputError("cannot be a variable of a process", f"environment: {key!r}", "leave it out")
        if size > MOST_OF_ONE:
            raise InputError(f"has {size} bytes, of at most {MOST_OF_ONE}", f"environment: {key!r}", "shorten it")
        total += size + 1
    if total > MOST_BYTES:
        raise InputError(f"has {total} bytes, of at most {MOST_BYTES}", "environment", "send fewer variables (--env)")


def patience_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the threshold reads from the owner's environment: a number of seconds, or nothing."""
    value = environment.get(PATIENCE, "")
    return {PATIENCE: value} if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) else {}
