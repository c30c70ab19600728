"""The words of every call to Grid Engine's commands. Pure: nothing is run here, and only this module builds them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cohabit.backend.steered.contract import ManagerRefused, Words

READING = ("qstat", "qhost", "qacct", "qselect", "qping", "qquota")
SHOWING = ("-help", "-sc", "-se", "-sp", "-sq")  # of qconf
SYSTEM, USER = "s", "u"  # kinds of holds: only managers set and lift the first
MARK, SECURED = "cohabit", "cohabit_hold"  # keys that we write into a job's context
ASKED, QUEUE = "cohabit_asked", "cohabit_queue"  # the same: what its owner had asked for
ANY = "*"  # any suitable queue
_NAME = re.compile(r"[0-9]+(\.[0-9]+)?")


def checked(name: str) -> str:
    """Check the name of a job, NUMBER or NUMBER.TASK: not an option or a pattern; ManagerRefused otherwise."""
    if _NAME.fullmatch(name) is None:
        raise ManagerRefused(f"{name[:60]!r} is not the name of a job")
    return name


def changes_nothing(words: Sequence[str]) -> bool:
    """Return whether a call only reads."""
    return words[0] in READING or (words[0] == "qconf" and len(words) > 1 and words[1] in SHOWING)


def describe_jobs() -> Words:
    """List all details of all jobs, except where they are."""
    return ("qstat", "-xml", "-j", "*")


def describe_job(name: str) -> Words:
    """Show the same for one job."""
    return ("qstat", "-xml", "-j", checked(name))


def list_jobs() -> Words:
    """List the state of every job; one row for every slot of a parallel job."""
    return ("qstat", "-xml", "-u", "*", "-g", "t")


def list_hosts() -> Words:
    return ("qhost", "-q", "-xml")


def show_environment(name: str) -> Words:
    """Show a parallel environment."""
    return ("qconf", "-sp", name)


def show_complexes() -> Words:
    return ("qconf", "-sc")


def show_host(name: str) -> Words:
    return ("qconf", "-se", name)


def show_queue(name: str) -> Words:
    return ("qconf", "-sq", name)


def version() -> Words:
    return ("qconf", "-help")


def accounting(name: str) -> Words:
    """Show how a job ended."""
    return ("qacct", "-j", checked(name))


def place(name: str, instances: Sequence[str], requests: Mapping[str, str], context: Mapping[str, str]) -> Words:
    """Steer a held job to exactly these queue instances (QUEUE@HOST). `requests` are all of its hard requests, because
    `qalter -l` replaces the list; empty: the list stays."""
    return ("qalter", "-q", ",".join(instances), *_requests(requests), *_context(context), checked(name))


def unplace(name: str, queue: str, requests: Mapping[str, str], context: Mapping[str, str]) -> Words:
    """Take a steering back: restore the queue the owner asked for."""
    return ("qalter", "-q", queue, *_requests(requests), *_context(context), checked(name))


def request(name: str, requests: Mapping[str, str]) -> Words:
    """Replace the hard requests."""
    return ("qalter", *_requests(requests), checked(name))


def note(name: str, context: Mapping[str, str]) -> Words:
    """Write down what we did with a job."""
    return ("qalter", *_context(context), checked(name))


def hold(name: str, kind: str = SYSTEM) -> Words:
    return ("qalter", "-h", kind, checked(name))


def release(name: str, kind: str = SYSTEM) -> Words:
    return ("qalter", "-h", kind.upper(), checked(name))


def suspend(name: str) -> Words:
    """Suspend a job; with our checkpointing environment this stops the run, and the job is queued again."""
    return ("qmod", "-sj", checked(name))


def cancel(name: str) -> Words:
    return ("qdel", checked(name))


def _requests(requests: Mapping[str, str]) -> Words:
    return ("-l", ",".join(f"{key}={value}" for key, value in requests.items())) if requests else ()


def _context(context: Mapping[str, str]) -> Words:
    return ("-ac", ",".join(f"{key}={value}" for key, value in context.items())) if context else ()
