"""Submit a job through qsub as its owner, held, and mark it in Grid Engine as waiting for us. It decides nothing.

The script sets the environment the owner gave and executes the command: no shell reads the words, and no line of it is
an option of qsub (`-C ""`). qsub itself runs as the owner, in an environment of ours, which the job does not get (no
-V).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.commands import MARK, checked
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.contract import Words
from cohabit.backend.steered.marks import held_mark
from cohabit.backend.steered.submitting import LOGIN, Extra, OfManager, number_in, owner_of, patience_of, script_of
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.units import SECOND

VARIABLES = OfManager(
    re.compile(
        "SGE_.*|JOB_(ID|NAME|SCRIPT)|QUEUE|NSLOTS|NHOSTS|NQUEUES|PE|PE_HOSTFILE|REQNAME|REQUEST|RESTARTED|TMP|TMPDIR"
        "|ARC|HOSTNAME|ENVIRONMENT"
    ),
    "JOB_ID",
    "SGE_TASK_ID",
)
NUMBER = re.compile(r"([0-9]+)(\.[0-9]+-[0-9]+:[0-9]+)?")  # of the job, and its tasks
MEMORY = "h_vmem"  # a limit where the site books no memory
OUTPUT = "gridengine-%j.out"  # of a job that names no file
PLACES = {"%%": "%", "%j": "$JOB_ID", "%A": "$JOB_ID", "%a": "$TASK_ID"}


def qsub_words(job: Job, launch: Launch, extra: Extra, site: Site) -> Words:
    """Return the call: held, with what the job asks for. InputError: Grid Engine cannot be asked for that."""
    mates = "" if job.mates is None else job.mates.name
    words = ["qsub", "-terse", "-C", "", "-S", "/bin/sh", "-h", "-wd", launch.folder or "/"]
    words += ["-ac", f"{MARK}={held_mark(mates)}" + (f",mates={mates}" if mates else "")]
    words += ["-r", "y" if job.requeue else "n"]
    if job.requeue and site.checkpoint:
        words += ["-ckpt", site.checkpoint]
    if extra.name:
        words += ["-N", _job_name(extra.name)]
    words += ["-q", job.partition] if job.partition else []
    words += ["-P", job.account] if job.account else []
    slots, environment = _slots(job, max(launch.threads, 1), site)
    if environment:
        words += ["-pe", environment, str(slots)]
    words += ["-l", ",".join(f"{key}={value}" for key, value in _requests(job, slots, site).items())]
    words += ["-o", _file(launch.stdout or OUTPUT, job, "stdout")]
    words += ["-e", _file(launch.stderr, job, "stderr")] if launch.stderr else ["-j", "y"]
    words += [word for key, value in patience_of(launch.environment).items() for word in ("-v", f"{key}={value}")]
    if extra.after:
        words += ["-hold_jid", ",".join(map(checked, extra.after))]
    if job.array_count:
        if job.array_first < 1:
            raise InputError(f"Grid Engine counts from 1, not from {job.array_first}", "array", "begin with 1 or more")
        words += ["-t", f"{job.array_first}-{job.array_first + job.array_count - 1}"]
        words += ["-tc", str(job.array_at_most)] if job.array_at_most else []
    return tuple(words)


def _slots(job: Job, threads: int, site: Site) -> tuple[int, str]:
    """Return the number of slots and their parallel environment; none for a single slot."""
    slots = job.processes * threads
    if job.nodes:
        if site.slots != site.most_slots:
            fix = "ask for processes, and for hosts of one's own if need be"
            raise InputError("hosts of this cluster differ, so they cannot be counted out", "nodes", fix)
        if slots > job.nodes * site.slots:
            raise InputError(f"{slots} slots do not fit on {job.nodes} hosts of {site.slots}", "nodes")
        slots = job.nodes * site.slots
    if slots == 1:
        return 1, ""
    single = job.single_node or threads > 1 or job.nodes == 1
    if single and slots > site.most_slots:
        raise InputError(f"no host has {slots} slots, and this job needs one that does", "processes", "ask for fewer")
    environment = site.one_host if single else site.spread
    if not environment:
        kind, key = ("on one host ($pe_slots)", "one_host") if single else ("over hosts ($round_robin)", "spread")
        fix = f"ask the operator for one, or name it in the site file: [gridengine] {key}"
        raise InputError(f"the queue has no parallel environment that gives slots {kind}", "processes", fix)
    return slots, environment


def _requests(job: Job, slots: int, site: Site) -> dict[str, str]:
    found = {"h_rt": str(max(-(-job.limit_us // SECOND), 1))}
    if job.exclusive or job.nodes:
        if not site.exclusive:
            raise InputError("Grid Engine has no complex for exclusive hosts here", "exclusive", "leave it out")
        found[site.exclusive] = "true"
    if job.memory_bytes:
        bytes = job.memory_bytes * job.processes
        found[site.memory or MEMORY] = str(bytes if site.memory_once else -(-bytes // slots))
    return found


def _job_name(text: str) -> str:
    """Return a valid name: Grid Engine allows no leading digit and few special characters."""
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", text)
    return f"J{name}" if name[:1].isdigit() else name


def _file(path: str, job: Job, where: str) -> str:
    """Translate a path; %j is the full name of an array member, and every member has a file of its own."""
    if set(path) & set(",:"):
        raise InputError(f"Grid Engine takes no file with a comma or a colon in its name ({path})", where, "rename it")
    if job.array_count:
        own = re.search(r"(?<!%)(%%)*%[ja]", path) is not None or path.startswith("/dev/")
        path = path.replace("%j", "%A_%a") if own else f"{path}.%a"
    return re.sub("%[%jAa]", lambda found: PLACES[found[0]], path)


async def hand_in(calls: Calls, site: Site, job: Job, launch: Launch, extra: Extra, login: Mapping[str, str]) -> str:
    """Submit a job, held, and return the number that qsub printed; its owner must still be checked with Grid Engine.
    ManagerRefused says why not."""
    words, script = qsub_words(job, launch, extra, site), script_of(job, launch, VARIABLES, "#!", login)
    environment = calls.environment | {key: login[key] for key in LOGIN if key in login}
    said = await calls.run(words, script, environment, owner_of(launch, calls.acts_as))
    return number_in(said.strip().rpartition("\n")[2], NUMBER, words[0])  # warnings come first
