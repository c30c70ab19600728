"""The words of every call to Slurm's commands. Pure: nothing is run here, and no other module builds such words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cohabit.backend.steered.contract import ManagerRefused, Words
from cohabit.backend.steered.marks import CORES, SHARED, WHOLE, Before

SEVERAL: Words = ("scontrol", "--quiet")  # calls of scontrol, one per line of its input
READING = ("squeue", "sinfo", "sacct")
SHOWING = ("show", "ping", "version")  # subcommands of scontrol that change nothing
TELLS_SHARING = "v0.0.44"  # the newest JSON that says whether a job wants exclusive nodes
# Whole nodes for a job that did not ask for them, and that taken back (OverSubscribe=NO would not). Cores set aside
# for the system come with whole nodes; the site must allow it (AllowSpecResourcesUsage).
_MAKE = {WHOLE: ("CoreSpec=0",), SHARED: ("CoreSpec=*", "OverSubscribe=YES"), CORES: ("OverSubscribe=YES",), "": ()}
_UNMAKE = {WHOLE: _MAKE[SHARED], SHARED: _MAKE[SHARED], CORES: ("OverSubscribe=NO",), "": ()}

_NAME, _WORD = re.compile(r"[0-9]+(_[0-9]+)?"), re.compile(r"[!#-&(-\[\]-~]+")  # printed signs but for quotes and \\


def checked(name: str) -> str:
    """Check the name of a job, NUMBER or ARRAY_TASK: it must not be an option or a list; ManagerRefused otherwise."""
    if _NAME.fullmatch(name) is None:
        raise ManagerRefused(f"{name[:60]!r} is not the name of a job")
    return name


def is_number(name: str) -> bool:
    """Return whether it is a job's name without a task."""
    return name.isascii() and name.isdecimal()


def line_of(words: Words) -> str:
    """Return a call of scontrol as a line of its input; ManagerRefused if it would be read as something else."""
    if not all(_WORD.fullmatch(word) for word in words):
        raise ManagerRefused("a word of the call has characters that scontrol would change")
    return " ".join(words[1:])


def changes_nothing(words: Sequence[str]) -> bool:
    """Return whether a call only reads."""
    if words[0] in READING:
        return True
    plain = [word for word in words[1:] if not word.startswith("-")]
    return words[0] == "scontrol" and bool(plain) and plain[0] in SHOWING


def list_jobs_json(form: str = "") -> Words:
    return ("squeue", "--all", "--states=all", f"--json={form}" if form else "--json")


def list_numbers() -> Words:
    """List the number of every job and nothing else: a thousand in 9 ms. Without --array it omits waiting tasks of
    arrays that have numbers of their own."""
    return ("squeue", "--all", "--states=all", "--array", "--noheader", "--format=%A")


def show_script(name: str) -> Words:
    """Show a job's batch script; for its owner and administrators only."""
    return ("scontrol", "write", "batch_script", checked(name), "-")


def list_jobs_text() -> Words:
    """List all jobs as text: a thousand jobs cost 34 ms of processor time, as JSON 156 ms (22.05)."""
    return ("scontrol", "--all", "--details", "--oneliner", "show", "job")


def show_job(name: str) -> Words:
    return ("scontrol", "--details", "--oneliner", "show", "job", checked(name))


def list_nodes() -> Words:
    return ("scontrol", "--all", "--oneliner", "show", "node")


def list_reservations() -> Words:
    return ("scontrol", "--all", "--oneliner", "show", "reservation")


def list_partitions() -> Words:
    return ("scontrol", "--all", "--oneliner", "show", "partition")


def show_config() -> Words:
    return ("scontrol", "show", "config")


def accounting(names: Sequence[str]) -> Words:
    """Show how jobs ended, from the accounting: for jobs that Slurm's controller has forgotten."""
    return (
        "sacct",
        "--parsable2",
        "--noheader",
        "--allocations",
        "--duplicates",
        "--format=JobID,State,ExitCode",
        f"--jobs={','.join(map(checked, names))}",
    )


def place(name: str, nodes: Sequence[str], cores: int, text: str, made: str = "") -> Words:
    """Steer a held job to exactly these nodes, at least so many cores on each, and whole nodes if `made` says so.

    NumNodes has both bounds, or Slurm may add nodes. OverSubscribe is left alone: with "no" a job does not get whole
    nodes, and with "yes" it loses the --exclusive its owner asked for. StartTime: Slurm lets a requeued job wait two
    minutes; the begin time its owner gave has passed before the job is ours.
    """
    return (
        "scontrol",
        "update",
        f"JobId={checked(name)}",
        f"ReqNodeList={','.join(nodes)}",
        f"NumNodes={len(nodes)}-{len(nodes)}",
        f"MinCPUsNode={cores}",
        f"AdminComment={text}",
        "StartTime=now",
        *_MAKE[made],
    )


def unplace(name: str, before: Before, most_nodes: int, text: str) -> Words:
    """Take a steering back, so that plain Slurm decides as its owner had asked. A job without a largest number of nodes
    gets the number of existing nodes: Slurm 22.05 cannot remove the bound."""
    return (
        "scontrol",
        "update",
        f"JobId={checked(name)}",
        "ReqNodeList=",
        f"NumNodes={before.least}-{before.most or most_nodes}",
        f"MinCPUsNode={before.per_node}",
        f"NumCPUs={before.cpus}",
        f"AdminComment={text}",
        *_UNMAKE[before.made],
    )


def mark(names: Sequence[str], text: str) -> Words:
    """Write down what we did with jobs, where only administrators can."""
    return ("scontrol", "update", f"JobId={','.join(map(checked, names))}", f"AdminComment={text}")


def release(names: Sequence[str]) -> Words:
    """Release many jobs in one call."""
    return ("scontrol", "release", ",".join(map(checked, names)))


def hold(name: str) -> Words:
    """Hold a job as if its owner had done it: an administrator's hold (`scontrol hold`) can be told from ours."""
    return ("scontrol", "uhold", checked(name))


def change_limit(name: str, limit_s: float) -> Words:
    """Set a limit in whole minutes, rounded up, as Slurm counts."""
    return ("scontrol", "update", f"JobId={checked(name)}", f"TimeLimit={max(-(-limit_s // 60), 1):.0f}")


def requeue_held(name: str) -> Words:
    """Stop a run and leave the job in the queue, held."""
    return ("scontrol", "requeuehold", checked(name))


def cancel(name: str) -> Words:
    return ("scancel", checked(name))
