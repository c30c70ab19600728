"""Handing a job to sbatch as its owner, held, and telling Slurm that it waits for us. It decides nothing.

The batch script only becomes the command: no shell reads the words. The environment is the one the owner gave.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from cohabit.backend.protocol import Launch
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.commands import Words
from cohabit.model.job import Job

PATH = "/usr/local/bin:/usr/bin:/bin"
MIB = 2**20
_OUR_OWN = """export COHABIT_ARRAY=$SLURM_ARRAY_JOB_ID COHABIT_ARRAY_MEMBER=$SLURM_ARRAY_TASK_ID
export COHABIT_ARRAY_FIRST={first} COHABIT_ARRAY_LAST={last} COHABIT_ARRAY_SIZE={count}
"""


class Extra(NamedTuple):
    """What a job asks for besides what the core is told of it."""

    name: str = ""
    after: tuple[str, ...] = ()  # jobs by Slurm's names
    comment: str = ""
    first_line: str = "#!"  # of its script, up to the interpreter: the threshold of a job with mates


def sbatch_words(job: Job, launch: Launch, extra: Extra) -> Words:
    """The call: held, with what the job asks for."""
    minutes = max(-(-job.limit_us // 60_000_000), 1)
    words = ["sbatch", "--parsable", "--hold", f"--time={minutes}", f"--chdir={launch.folder or '/'}"]
    if job.nodes:
        words += [f"--nodes={job.nodes}", f"--ntasks={max(job.processes, job.nodes)}", "--exclusive"]
    else:
        words += [f"--ntasks={job.processes}", *(["--exclusive"] if job.exclusive else [])]
    if launch.threads > 1:
        words.append(f"--cpus-per-task={launch.threads}")
    if job.single_node and not job.nodes:
        words.append("--nodes=1")
    words += [f"--{key}={value}" for key, value in (
        ("job-name", extra.name), ("partition", job.partition), ("output", _pattern(launch.stdout, job)),
        ("error", _pattern(launch.stderr, job)), ("comment", extra.comment),
    ) if value]  # fmt: skip
    if job.memory_bytes:
        words.append(f"--mem-per-cpu={-(-job.memory_bytes // MIB)}M")
    if extra.after:
        words.append(f"--dependency={'afterany' if job.after_any else 'afterok'}:{':'.join(extra.after)}")
    if job.array_count:
        bound = f"%{job.array_at_most}" if job.array_at_most else ""
        words.append(f"--array={job.array_first}-{job.array_first + job.array_count - 1}{bound}")
    return (*words, "--requeue" if job.requeue else "--no-requeue")


def _pattern(path: str, job: Job) -> str:
    """%j is a member's whole name in ours, as %A_%a is in Slurm's; every member has a file of its own."""
    if not job.array_count or not path:
        return path
    own = "%j" in path or "%a" in path
    return path.replace("%j", "%A_%a") if own else f"{path}.%a"


def script_of(job: Job, launch: Launch, first_line: str = "#!") -> str:
    """What sbatch reads."""
    last = job.array_first + job.array_count - 1
    member = _OUR_OWN.format(first=job.array_first, last=last, count=job.array_count) if job.array_count else ""
    return f"{first_line}/bin/sh\n{member}exec {shlex.join(launch.command)}\n"


async def hand_in(calls: Calls, job: Job, launch: Launch, extra: Extra, login: Mapping[str, str]) -> str:
    """Slurm's number of the job, which is held. SlurmRefused says why not."""
    words = sbatch_words(job, launch, extra)
    conf = {key: calls.environment[key] for key in ("SLURM_CONF",) if key in calls.environment}
    environment = {"PATH": PATH, **login, **launch.environment, **conf}
    program = shutil.which(words[0], path=calls.environment.get("PATH", PATH)) or words[0]
    person = (launch.uid, launch.gid, launch.groups) if launch.uid >= 0 and os.geteuid() == 0 else (-1, -1, ())
    said = await calls.run((program, *words[1:]), script_of(job, launch, extra.first_line), environment, *person)
    return said.strip().partition(";")[0]
