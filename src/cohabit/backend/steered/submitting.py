"""Common parts of submissions to a manager: the batch script of the job, its owner, and its number in an answer.

The script sets the owner's environment and executes the command. The environment is data in the script. The command
that submits never sees it, so no variable of the owner acts on that command, be it as an option of it or as code
(LD_PRELOAD, PATH). What the manager sets for a job is left as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cohabit.backend.bounded_process import OURSELVES, Owner
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.contract import ManagerRefused
from cohabit.launcher.requests import PATIENCE
from cohabit.model.errors import InputError
from cohabit.model.job import Job

PATH = "/usr/local/bin:/usr/bin:/bin"  # for a job without a PATH of its owner
MOST_BYTES, MOST_OF_ONE = 2**20, 2**17 - 1  # the kernel's limits for a command
LOGIN = ("HOME", "USER", "LOGNAME", "SHELL")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = ("PWD", "OLDPWD", "SHLVL", "_")
# Names that some shells do not let a script set: env(1) passes them to the command, with those that no shell can set.
_NOT_BY_SHELL = (
    "UID", "EUID", "PPID", "GROUPS", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "OPTIND", "LINENO", "RANDOM", "SECONDS",
)  # fmt: skip
_OF_MEMBERS = """export COHABIT_ARRAY=${array} COHABIT_ARRAY_MEMBER=${task}
export COHABIT_ARRAY_FIRST={first} COHABIT_ARRAY_LAST={last} COHABIT_ARRAY_SIZE={count}
"""


class Extra(NamedTuple):
    """Requests of a job that the core is not told."""

    name: str = ""
    after: tuple[str, ...] = ()  # jobs, by the manager's names
    comment: str = ""
    first_line: str = "#!"  # of its script, up to the interpreter: the threshold for a job with mates


class Start(NamedTuple):
    """How a script starts the command."""

    lines: str = ""  # of shell, before
    words: str = ""  # before the command, on its line
    command: tuple[str, ...] | None = None  # another one; None: the job's


AS_IT_IS = Start()


class OfManager(NamedTuple):
    """Variables that a manager sets for a job."""

    kept: re.Pattern[str]  # names that keep the manager's value
    array: str  # the one with the number of the array
    task: str  # the one with the number of the member


def script_of(
    job: Job,
    launch: Launch,
    variables: OfManager,
    first_line: str,
    login: Mapping[str, str],
    start: Start = AS_IT_IS,
) -> str:
    """Return the script of a job. `login`: what a login of its owner sets. InputError: as for `batch_script`."""
    first, count, members = job.array_first, job.array_count, ""
    if count:
        names = {"array": variables.array, "task": variables.task}
        members = _OF_MEMBERS.format(first=first, last=first + count - 1, count=count, **names)
    environment = {"PATH": PATH, **login, **launch.environment}
    command = launch.command if start.command is None else start.command
    lines = members + start.lines
    return batch_script(first_line, environment, variables.kept, lines, command, start.words)


def batch_script(
    first_line: str,
    environment: Mapping[str, str],
    of_manager: re.Pattern[str],
    lines: str,
    command: Sequence[str],
    words: str = "",
) -> str:
    """Return the script. `of_manager`: names that keep the manager's value; `lines`: more of it, before the command;
    `words`: of shell, that start the command.
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
    return f"{first_line}/bin/sh\n{''.join(told)}{lines}exec {through}{words}{shlex.join(command)}\n"


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
    """Return what the threshold reads before the script starts (packaging/threshold): a number of seconds."""
    value = environment.get(PATIENCE, "")
    return {PATIENCE: value} if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) else {}


def owner_of(launch: Launch, acts_as: int) -> Owner:
    """Return the account that a job is submitted as; only root submits as another."""
    return Owner(launch.uid, launch.gid, launch.groups) if launch.uid >= 0 and acts_as == 0 else OURSELVES


def number_in(said: str, form: re.Pattern[str], command: str) -> str:
    """Return the number of a job from output of a command that ran as the job's owner: it may contain anything."""
    found = form.fullmatch(said.strip())
    if found is None:
        raise ManagerRefused(f"{command} answers {said.strip()[:60]!r}, which is not the number of a job")
    return found[1]
