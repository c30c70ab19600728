"""Commands of resource managers that need the launcher's rights, from a fixed list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cohabit.launcher.requests import Refused
from cohabit.launcher.users import Users


class Managers:
    """`told`: programs by name."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told

    def run(self, request: Mapping[str, Any], users: Users) -> dict[str, Any]:
        raise Refused("no resource manager is steered from here")
