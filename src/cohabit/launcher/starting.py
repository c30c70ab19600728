"""Build the specification in a run's folder from a checked request. What root acts on is decided here, not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cohabit.agent import control_groups
from cohabit.agent.topology import format_cpus
from cohabit.launcher.runs import MARK, RunFolder
from cohabit.launcher.settings import Settings


def spec_of(
    settings: Settings, offer: control_groups.Offer, folder: RunFolder, request: Mapping[str, Any],
    person: Mapping[str, Any] | None, output: Path, group: Callable[[str], Path],
) -> dict[str, Any]:  # fmt: skip
    """Return all that the runner needs to know, as plain data. `group` returns a resctrl group."""
    cpus = sorted({cpu for _, own in request["nodes"] for cpu in own})
    memory, most = request["memory_bytes"], most_processes()
    return {
        "command": request["command"], "environment": request["environment"] | {MARK: str(folder.path)},
        "folder": request["folder"], "stdout": request["stdout"] or str(output), "stderr": request["stderr"],
        "cores": cpus, "nodes": request["nodes"], "cores_each": request["cores_each"],
        "bandwidth_mbs": request["bandwidth_mbs"], "limit_us": request["limit_us"], "grace_us": request["grace_us"],
        "memory_bytes": memory, "user": person,
        "groups": control_groups.plan(offer, folder.path.name, memory, format_cpus(tuple(cpus)), most),
        "joins": [str(group(one) / "tasks") for one in request["joins"]],
        "output_most": 0 if request["stdout"] else settings.output_most, "file_most": settings.file_most,
    }  # fmt: skip


def most_processes(kept: Path = Path("/proc/sys/kernel/pid_max")) -> int:
    """Return the process limit of a job: a fork bomb must not take the last process ids of the machine."""
    try:
        return max(int(kept.read_text()) // 4, 1024)
    except (OSError, ValueError):
        return 0
