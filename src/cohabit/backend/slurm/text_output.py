"""Parse the output of `scontrol show -o` and `sacct --parsable2`. Pure: text in, data out.

The text form is Slurm's oldest and the same in every version; it is read where there is no JSON. Names of jobs and
comments may contain spaces and equal signs, and are cut out before the rest is split at its keys.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from cohabit.backend.slurm.holding import held_by, without_word
from cohabit.backend.slurm.hostlist import NOTHING, expand, numbers
from cohabit.backend.steered.shapes import UNFINISHED, Ended, ManagerJob, ManagerNode, ManagerWindow

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z/:_]*)=")
_NAME = re.compile(r" JobName=(.*) (UserId=\S+ GroupId=)")  # greedy: a name may look like a field
_FREE = re.compile(r" Command=(.*)( StdErr=)")  # with the folder and the comments, which users write
_LATER = re.compile(r" (SubmitLine|WorkDir|AdminComment|SystemComment|Comment)=")
_DAYS = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$")
_CPU_IDS = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) ")
_FIRST = "JobId="
_CLOCK = re.compile(r" RunTime=\S+")
_OFTEN = ("Nodes", "CPU_IDs", "Mem", "GRES")  # repeated in a record for every kind of node
_ALONE = {"NO": "NODE"}  # later versions' word for Exclusive; they print OverSubscribe=NO for nearly every job


class Partition(msgspec.Struct, frozen=True):
    """One partition."""

    name: str
    nodes: tuple[str, ...] = ()
    oversubscribe: str = "NO"
    up: bool = True
    default: bool = False
    core_jobs: int = 1  # jobs that may share a core


def fields(line: str) -> dict[str, str]:
    """Return the keys and values of one line; of a repeated key the first value."""
    found: dict[str, str] = {}
    if (name := _NAME.search(line)) is not None:
        found["JobName"] = re.sub(r"( SLUID=s\w+)?( HetJobIdSet=\S+)?$", "", name.group(1))  # words added by Slurm
        line = f"{line[: name.start()]} {line[name.start(2) :]}"
    if (free := _FREE.search(line)) is not None:
        parts = _LATER.split(free.group(1))
        found["Command"] = parts[0]
        found |= dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))
        line = f"{line[: free.start()]}{line[free.start(2) :]}"
    parts = _KEY.split(line)
    for key, value in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(key, value.strip())
    return {key: "" if value in NOTHING else value for key, value in found.items()}


def records(text: str) -> list[tuple[int, str]]:
    """Split `scontrol show job -o -d` into records with job numbers; the records are not parsed yet."""
    found: list[tuple[int, str]] = []
    for part in f"\n{text}".split(f"\n{_FIRST}")[1:]:
        number = part.partition(" ")[0]
        if number.isdecimal():
            found.append((int(number), f"{_FIRST}{part}"))
        elif found:  # text of a user, not a record
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{_FIRST}{part}")
    return found


def without_clock(record: str) -> str:
    """Return the record without its run time, which alone is no change."""
    return _CLOCK.sub("", record, count=1)


def is_doubtful(record: str) -> bool:
    """Return whether the owner's text could be taken for Slurm's: a field occurs twice or is missing."""
    keys = [key for key in _KEY.findall(record) if key not in _OFTEN]
    return len(keys) != len(set(keys)) or not {"JobState", "UserId"} <= set(keys)


def jobs(text: str) -> list[ManagerJob]:
    """Parse `scontrol show job -o -d`: a record per job; a waiting array becomes its tasks. Half a record, left by a
    name that contains a new line and another record, is dropped."""
    found = (" ".join(one.splitlines()) for _, one in records(text))
    return [job for record in found if " JobState=" in record for job in _tasks(record)]


def _tasks(line: str) -> list[ManagerJob]:
    said = fields(line)
    if "JobState" not in said:  # 26.05 prints the submission command line, which can hold an owner's copy of a record
        return []
    number, array, task = said["JobId"], said.get("ArrayJobId", ""), said.get("ArrayTaskId", "")
    if not array:
        return [_job(number, said, line)]
    at_most = int(said.get("ArrayTaskThrottle") or task.partition("%")[2] or 0)
    return [_job(f"{array}_{one}", said, line, array, at_most) for one in numbers(task)]


def _job(name: str, said: dict[str, str], line: str, array: str = "", at_most: int = 0) -> ManagerJob:
    least, _, most = said.get("NumNodes", "1").partition("-")
    status, signal = _exit_code(said.get("ExitCode", ""))
    per_cpu, per_node = _mb(said.get("MinMemoryCPU", "")), _mb(said.get("MinMemoryNode", ""))
    state = said["JobState"].split("+")[0]
    waits = state == "PENDING"
    nodes_least = _count(least, 1)
    cores_on = {node: len(numbers(ids)) for hosts, ids in _CPU_IDS.findall(line) for node in expand(hosts)}
    return ManagerJob(
        name,
        int(said["JobId"]),
        state,
        said.get("Reason", ""),
        said.get("Priority") == "0",
        user_of(said.get("UserId", "")),
        said.get("JobName", ""),
        said.get("Command", ""),
        without_word(said.get("Comment", "")),
        said.get("AdminComment", ""),
        said.get("Partition", ""),
        said.get("Dependency", ""),
        _whole(said.get("NumTasks", ""), 1) or nodes_least,
        _whole(said.get("NumCPUs", "1").partition("-")[0], 1),
        _whole(said.get("CPUs/Task", ""), 1),
        _whole(said.get("NtasksPerN:B:S:C", "0").partition(":")[0], 0),
        nodes_least,
        _count(most, 0),
        _whole(said.get("MinCPUsNode", ""), 1),
        per_cpu,
        per_node,
        seconds(said.get("TimeLimit", "")),
        said.get("Exclusive", _ALONE.get(said.get("OverSubscribe", ""))) == "NODE",
        said.get("Requeue") == "1",
        _whole(said.get("Restarts", ""), 0),
        expand(said.get("ReqNodeList", "")),
        expand(said.get("ExcNodeList", "")),
        expand(said.get("NodeList", "")),
        cores_on,
        _instant(said.get("SubmitTime", "")),
        _instant(said.get("StartTime", "")) if waits else 0.0,
        0.0 if waits else _instant(said.get("StartTime", "")),
        _instant(said.get("EligibleTime", "")),
        0.0 if state in UNFINISHED else _instant(said.get("EndTime", "")),
        status,
        signal,
        array,
        at_most,
        _special(said),
        account=said.get("Account", ""),
        held_by=held_by(said.get("Reason", ""), said.get("Comment", "")),
    )


def _special(said: dict[str, str]) -> tuple[str, ...]:
    found = []
    if said.get("HetJobId"):
        found.append("is part of a heterogeneous job")
    for key, words in (
        ("Licenses", "licences"),
        ("Features", "a constraint"),
        ("Reservation", "a reservation"),
        ("TresPerNode", "generic resources"),
        ("TresPerJob", "generic resources"),
        ("TresPerTask", "generic resources"),
        ("TresPerSocket", "generic resources"),
        ("BurstBuffer", "a burst buffer"),
    ):
        if said.get(key) and not (key == "TresPerTask" and cpus_only(said[key])):
            found.append(f"asks for {words} ({said[key]})")
    alone = said.get("Exclusive") or said.get("OverSubscribe", "")
    if alone in ("USER", "MCS", "TOPO"):
        found.append(f"asks for nodes that only its own kind shares ({alone.lower()})")
    if said.get("Contiguous") == "1":
        found.append("asks for contiguous nodes")
    if said.get("CoreSpec", "*") not in ("*", "", "0"):
        found.append("asks for specialised cores")
    return tuple(dict.fromkeys(found))


def cpus_only(per_task: str) -> bool:
    """Return whether this is what -c sets (23.02 and later), without generic resources."""
    return per_task.startswith(("cpu=", "cpu:")) and "," not in per_task


def nodes(text: str) -> list[ManagerNode]:
    """Parse `scontrol show node -o`."""
    found = []
    for said in (fields(line) for line in text.splitlines() if line.startswith("NodeName=")):
        states = tuple(re.sub(r"[*~#!%$@^-]+$", lambda mark: _SUFFIX.get(mark[0][0], ""), said["State"]).split("+"))
        found.append(
            ManagerNode(
                said["NodeName"],
                _whole(said.get("CPUEfctv") or said.get("CPUTot", ""), 1),
                _whole(said.get("ThreadsPerCore", ""), 1),
                _whole(said.get("RealMemory", ""), 0),
                tuple(filter(None, said.get("Partitions", "").split(","))),
                states,
            )
        )
    return found


_SUFFIX = {"*": "+NOT_RESPONDING", "~": "+POWERED_DOWN", "#": "+POWERING_UP", "%": "+POWERING_DOWN", "$": "+MAINT",
           "@": "+REBOOT_ISSUED", "^": "+REBOOT_ISSUED", "!": "+POWER_DOWN", "-": "+PLANNED"}  # fmt: skip


def _core_jobs(text: str) -> int:
    """Return how many jobs a partition puts on a core: YES:4, FORCE:2; without a number four."""
    word, _, count = text.partition(":")
    if word not in ("YES", "FORCE"):
        return 1
    return int(count) if count.isdigit() else 4


def partitions(text: str) -> list[Partition]:
    """Parse `scontrol show partition -o`."""
    return [
        Partition(
            said["PartitionName"],
            expand(said.get("Nodes", "")),
            "EXCLUSIVE" if said.get("Exclusive") == "NODE" else said.get("OverSubscribe", "NO").partition(":")[0],
            said.get("State", "UP") == "UP",
            said.get("Default") == "YES",
            _core_jobs(said.get("OverSubscribe", "NO")),
        )
        for said in (fields(line) for line in text.splitlines() if line.startswith("PartitionName="))
    ]


def reservations(text: str) -> list[ManagerWindow]:
    """Parse `scontrol show reservation -o`; there is a sentence instead if there are none."""
    return [
        ManagerWindow(
            said["ReservationName"], _instant(said["StartTime"]), _instant(said["EndTime"]), expand(said["Nodes"])
        )
        for said in (fields(line) for line in text.splitlines() if line.startswith("ReservationName="))
        if said.get("Nodes")
    ]


def config(text: str) -> dict[str, str]:
    """Parse `scontrol show config`: one key per line."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def booted_s(text: str) -> float:
    """Return from `scontrol show config` since when slurmctld has run."""
    return _instant(config(text).get("BOOT_TIME", ""))


def accounted(text: str) -> list[Ended]:
    """Parse `sacct --parsable2 --noheader --format=JobID,State,ExitCode`; steps are left out."""
    found = []
    for line in text.splitlines():
        name, _, rest = line.partition("|")
        state, _, code = rest.partition("|")
        if name and "." not in name and "+" not in name:
            found.append(Ended(name, state.split(" ")[0], *_exit_code(code)))
    return found


def seconds(text: str) -> float | None:
    """Parse [days-]hours:minutes:seconds; None: no limit."""
    found = _DAYS.match(text)
    if found is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def _instant(text: str) -> float:
    """Parse an instant; Slurm prints local time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _exit_code(text: str) -> tuple[int | None, int | None]:
    status, colon, signal = text.strip().partition(":")
    if not colon or not status.isdigit() or not signal.isdigit():
        return None, None
    return int(status), int(signal) or None


def user_of(text: str) -> int:
    """Return the number in NAME(NUMBER); -1: there is none."""
    found = re.search(r"\((\d+)\)$", text)
    return int(found.group(1)) if found else -1


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


def _count(text: str, otherwise: int) -> int:
    """Parse a number of nodes; large ones are written with a K."""
    if text.endswith("K") and text[:-1].isdigit():
        return int(text[:-1]) * 1024
    return _whole(text, otherwise)


def _mb(text: str) -> int:
    found = re.match(r"([\d.]+)([KMGT]?)$", text)
    if found is None:
        return 0
    return round(float(found.group(1)) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}[found.group(2)])
