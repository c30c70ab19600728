"""Parse the output of `squeue --json`. Pure: text in, data out.

Forms differ by version (v0.0.38 of Slurm 22.05 has plain numbers and one word for a state; later ones have {"set",
"infinite", "number"} and lists of words); both are read here and nothing else needs to know.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cohabit.backend.slurm.commands import TELLS_SHARING
from cohabit.backend.slurm.holding import held_by, without_word
from cohabit.backend.slurm.hostlist import expand, numbers
from cohabit.backend.slurm.text_output import cpus_only
from cohabit.backend.steered.marks import RUN, read_mark
from cohabit.backend.steered.shapes import UNFINISHED, ManagerJob, ManagerNode

NO_SPECIALISED = (None, 0, 0x7FFE)  # cores or threads reserved for the system; the last means none in 24.11


class Incomplete(ValueError):
    """The output does not say whether a job wants exclusive nodes (v0.0.45 of Slurm 26.05)."""


class NoAnswer(Exception):
    """The document holds an error: squeue of 22.05 prints one without jobs, and exits with 0, if there is no answer."""


def jobs(text: str | bytes) -> list[ManagerJob]:
    """Parse `squeue --json`; a waiting array becomes its tasks."""
    document = _decoded(text)
    if errors := document.get("errors"):
        words = [one.get("description") or one.get("error") if isinstance(one, dict) else one for one in errors]
        raise NoAnswer("; ".join(str(word) for word in words))
    form = str(((document.get("meta") or {}).get("plugin") or {}).get("data_parser", "")).rpartition("/")[2]
    if form_number(form) > form_number(TELLS_SHARING) and any("exclusive" not in one for one in document["jobs"]):
        raise Incomplete(f"{form} leaves out whether jobs want nodes for themselves")
    return [job for said in document.get("jobs", ()) for job in _tasks(said)]


def form_number(form: str) -> tuple[int, ...]:
    """Return a key to compare forms (v0.0.38)."""
    return tuple(int(part) for part in re.findall("[0-9]+", form))


def nodes(text: str | bytes) -> list[ManagerNode]:
    """Parse slurmrestd's list of nodes; of v0.0.38 (one state and flags beside it) and later (a list of states)."""
    document = _decoded(text)
    return [
        ManagerNode(
            said["name"],
            int(_number(said.get("effective_cpus")) or _number(said.get("cpus")) or 1),
            int(_number(said.get("threads")) or 1),
            int(_number(said.get("real_memory")) or 0),
            tuple(said.get("partitions") or ()),
            tuple(word.upper() for key in ("state", "state_flags") for word in _words(said.get(key))),
        )
        for said in document.get("nodes", ())
    ]


def _decoded(text: str | bytes) -> dict[str, Any]:
    found = msgspec.json.decode(text)
    if not isinstance(found, dict):
        raise ValueError("Slurm answered with something that is not an object")
    return found


def _tasks(said: dict[str, Any]) -> list[ManagerJob]:
    array = int(_number(said.get("array_job_id")) or 0)
    if not array:
        return [_job(str(said["job_id"]), said)]
    at_most, task = int(_number(said.get("array_max_tasks")) or 0), _number(said.get("array_task_id"))
    which = numbers(said.get("array_task_string") or "") if task is None else (int(task),)
    return [_job(f"{array}_{one}", said, str(array), at_most) for one in which]


def _job(name: str, said: dict[str, Any], array: str = "", at_most: int = 0) -> ManagerJob:
    states = [word.upper() for word in _words(said.get("job_state"))]
    state = states[0] if states else ""
    waits = state == "PENDING"
    status, signal = _exit(said.get("exit_code"))
    minutes, shared = _number(said.get("time_limit")), _words(said.get("exclusive") or said.get("shared"))
    start_s = float(_number(said.get("start_time")) or 0)
    least = int(_number(said.get("node_count")) or 1)
    tasks = int(_number(said.get("tasks")) or least)
    priority = _number(said.get("priority"))
    return ManagerJob(
        name,
        int(said["job_id"]),
        state,
        _text(said.get("state_reason")).removeprefix("None"),
        priority == 0,
        int(_number(said.get("user_id")) or 0),
        said.get("name") or "",
        said.get("command") or "",
        without_word(_text(said.get("comment"))),
        _text(said.get("admin_comment")),
        said.get("partition") or "",
        said.get("dependency") or "",
        tasks,
        int(_number(said.get("cpus")) or 1),
        int(_number(said.get("cpus_per_task")) or _derived(said, tasks)),
        int(_number(said.get("tasks_per_node")) or 0),
        least,
        int(_number(said.get("max_nodes")) or 0),
        int(_number(said.get("minimum_cpus_per_node")) or 1),
        int(_number(said.get("memory_per_cpu")) or 0),
        int(_number(said.get("memory_per_node")) or 0),
        None if minutes is None else minutes * 60.0,
        bool({"none", "NODE"} & set(shared)),
        bool(said.get("requeue")),
        int(_number(said.get("restart_cnt")) or 0),
        expand(said.get("required_nodes") or ""),
        expand(said.get("excluded_nodes") or ""),
        expand(said.get("nodes") or ""),
        _cores_on(said),
        float(_number(said.get("submit_time")) or 0),
        start_s if waits else 0.0,
        0.0 if waits else start_s,
        float(_number(said.get("eligible_time")) or 0),
        0.0 if state in UNFINISHED else float(_number(said.get("end_time")) or 0),
        status,
        signal,
        array,
        at_most,
        _special(said),
        account=said.get("account") or "",
        held_by=held_by(_text(said.get("state_reason")), _text(said.get("comment"))),
    )


def _derived(said: dict[str, Any], tasks: int) -> int:
    """Return the CPUs of a task where they are not stated: 22.05 prints null whatever its owner asked for."""
    mark = read_mark(_text(said.get("admin_comment")))
    cpus = mark.before.cpus if mark is not None and mark.kind == RUN else int(_number(said.get("cpus")) or 1)
    return max(cpus // tasks, 1)


def _special(said: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if _number(said.get("het_job_id")):
        found.append("is part of a heterogeneous job")
    for key, words in (
        ("licenses", "licences"),
        ("features", "a constraint"),
        ("resv_name", "a reservation"),
        ("tres_per_node", "generic resources"),
        ("tres_per_job", "generic resources"),
        ("tres_per_task", "generic resources"),
        ("tres_per_socket", "generic resources"),
        ("burst_buffer", "a burst buffer"),
    ):
        value = said.get(key) or ""
        if value and not (key == "tres_per_task" and cpus_only(value)):
            found.append(f"asks for {words} ({value})")
    alone = {one.lower() for one in _words(said.get("exclusive") or said.get("shared"))} & {"user", "mcs", "topo"}
    found += [f"asks for nodes that only its own kind shares ({word})" for word in sorted(alone)]
    if said.get("contiguous"):
        found.append("asks for contiguous nodes")
    if any(_number(said.get(key)) not in NO_SPECIALISED for key in ("core_spec", "thread_spec")):
        found.append("asks for specialised cores")
    return tuple(dict.fromkeys(found))


def _cores_on(said: dict[str, Any]) -> dict[str, int]:
    """Return cores per node, counted one by one, from both forms of job_resources."""
    there = said.get("job_resources") or {}
    if not isinstance(there, dict):
        return {}
    found = {}
    for node in there.get("allocated_nodes") or ():  # v0.0.38
        sockets = node.get("sockets") or {}
        cores = [word for one in sockets.values() for word in (one.get("cores") or {}).values()]
        found[node["nodename"]] = sum("allocated" in word for word in cores)
    inner = there.get("nodes")
    for node in (inner.get("allocation") or ()) if isinstance(inner, dict) else ():  # v0.0.40 and later
        cores = [core for one in node.get("sockets") or () for core in one.get("cores") or ()]
        found[node["name"]] = sum("ALLOCATED" in _words(core.get("status")) for core in cores)
    return found


def _number(value: Any) -> float | None:
    """Return a number from any of its forms; None if it is not set or infinite."""
    if isinstance(value, dict):
        return float(value.get("number", 0)) if value.get("set") and not value.get("infinite") else None
    if isinstance(value, bool) or value is None:
        return None
    return float(value)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value or ()]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Return the status and the signal, from a wait() status or from a table."""
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal") or {}
        number = _number(signal.get("id", signal.get("signal_id")))
        status = _number(value.get("return_code"))
        return int(status or 0), int(number) if number else None
    found = _number(value)
    if found is None:
        return None, None
    return int(found) >> 8 & 0xFF, (int(found) & 0x7F) or None
