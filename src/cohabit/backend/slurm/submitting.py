"""Submit a job through sbatch as its owner, held, and mark it in Slurm as waiting for us. It decides nothing.

The batch script sets the environment the owner gave and executes the command: no shell reads the words. sbatch itself
runs as the owner and in an environment of ours; of its answer only the number of a job is trusted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from cohabit.backend.protocol import Launch
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.commands import checked
from cohabit.backend.slurm.launching import start_of, tasks_of
from cohabit.backend.steered.contract import Words
from cohabit.backend.steered.submitting import LOGIN, Extra, OfManager, number_in, owner_of, patience_of, script_of
from cohabit.model.job import Job

MIB = 2**20
VARIABLES = OfManager(
    re.compile(r"(SLURM|SLURMD|SPANK)_.*|(CUDA|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HOSTNAME|ENVIRONMENT"),
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
)
NUMBER = re.compile(r"([0-9]+)(;[A-Za-z0-9_.-]+)?")  # of the job, and of its cluster


def sbatch_words(job: Job, launch: Launch, extra: Extra) -> Words:
    """Return the call: held, with what the job asks for."""
    tasks, cpus = tasks_of(job, launch)
    minutes = max(-(-job.limit_us // 60_000_000), 1)
    words = ["sbatch", "--parsable", "--hold", f"--time={minutes}", f"--chdir={launch.folder or '/'}"]
    if job.nodes:
        words += [f"--nodes={job.nodes}", f"--ntasks={max(tasks, job.nodes)}", "--exclusive"]
    else:
        words += [f"--ntasks={tasks}", *(["--exclusive"] if job.exclusive else [])]
    if cpus > 1:
        words.append(f"--cpus-per-task={cpus}")
    if job.single_node and not job.nodes:
        words.append("--nodes=1")
    words += [
        f"--{key}={value}"
        for key, value in (
            ("job-name", extra.name),
            ("partition", job.partition),
            ("account", job.account),
            ("output", _pattern(launch.stdout, job)),
            ("error", _pattern(launch.stderr, job)),
            ("comment", extra.comment),
        )
        if value
    ]
    if job.memory_bytes:
        words.append(f"--mem-per-cpu={-(-job.memory_bytes // MIB)}M")
    if extra.after:
        words.append(f"--dependency={'afterany' if job.after_any else 'afterok'}:{':'.join(map(checked, extra.after))}")
    if job.array_count:
        bound = f"%{job.array_at_most}" if job.array_at_most else ""
        words.append(f"--array={job.array_first}-{job.array_first + job.array_count - 1}{bound}")
    return (*words, "--requeue" if job.requeue else "--no-requeue")


def _pattern(path: str, job: Job) -> str:
    """Translate %j, the full name of an array member, to Slurm's %A_%a; every member has a file of its own."""
    if not job.array_count or not path:
        return path
    own = "%j" in path or "%a" in path
    return path.replace("%j", "%A_%a") if own else f"{path}.%a"


def submission_environment(calls: Calls) -> dict[str, str]:
    """Return the environment of sbatch, without what the owner's login sets."""
    return {key: calls.environment[key] for key in ("PATH", "SLURM_CONF") if key in calls.environment}


async def hand_in(
    calls: Calls, node_cpus: int, mpi: str, job: Job, launch: Launch, extra: Extra, login: Mapping[str, str]
) -> str:
    """Submit a job, held, and return the number that sbatch printed; its owner must still be checked with Slurm.
    `node_cpus`, `mpi`: for the processes of a framework. ManagerRefused says why not."""
    start = start_of(job, launch, os.path.dirname(calls.program("srun")), node_cpus, mpi)
    words, script = sbatch_words(job, launch, extra), script_of(job, launch, VARIABLES, extra.first_line, login, start)
    environment = submission_environment(calls) | patience_of(launch.environment)
    environment |= {key: login[key] for key in LOGIN if key in login}
    return number_in(await calls.run(words, script, environment, owner_of(launch, calls.acts_as)), NUMBER, words[0])
