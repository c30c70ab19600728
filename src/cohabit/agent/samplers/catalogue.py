"""The list of samplers: one line each."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.disk import Disk
from cohabit.agent.samplers.infiniband import Infiniband
from cohabit.agent.samplers.load import Load
from cohabit.agent.samplers.lustre import Lustre
from cohabit.agent.samplers.network import Network
from cohabit.agent.samplers.omni_path import OmniPath
from cohabit.agent.samplers.pressure import Pressure
from cohabit.agent.samplers.sampler import HOST, Sampler


def all_samplers(root: Path = HOST) -> list[Sampler]:
    """Return one of each; `root` is the host's, or that of a tree of files that looks like one."""
    return [
        Infiniband(root), OmniPath(root), Lustre(root), Network(root), Disk(root), Pressure(root), Load(root),
    ]  # fmt: skip
