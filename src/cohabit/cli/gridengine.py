"""`cohabit gridengine`: steer a cluster under Grid Engine, look at both views, give it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cohabit.cli import steering
from cohabit.cli.steering import Steered

if TYPE_CHECKING:
    from cohabit.app.steer.gridengine_site import GridEngineSite
    from cohabit.app.steer.switch import Switch

ABOUT = "Decide for a Grid Engine cluster; Grid Engine keeps accounts, launching and limits."
SHORT = "On top of Grid Engine: attach, status, reload, detach."
NOT_ALONE = "No complex gives a host to one job alone: Grid Engine's own jobs may run beside ours."
NOT_AGAIN = "There is no checkpointing environment of Cohabit: a run that must stop is deleted, not queued again."


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    steered = Steered("gridengine", "Grid Engine", ABOUT, SHORT, _read, _switch, _headline, _remarks)
    steering.register(app, steered, "status")


def _read(path: Path) -> GridEngineSite:
    from cohabit.app.steer.gridengine_site import read_gridengine_site

    return read_gridengine_site(path)


def _switch(path: Path) -> Switch:
    from cohabit.app.steer.gridengine_switch import read_switch

    return read_switch(path)


def _headline(theirs: dict[str, Any]) -> str:
    return f"{theirs['version']}, {theirs['hosts']} hosts of {theirs['queue']}"


def _remarks(theirs: dict[str, Any]) -> list[str]:
    missing = (("exclusive", NOT_ALONE), ("checkpoint", NOT_AGAIN))
    return [text for key, text in missing if theirs[key] is None]
