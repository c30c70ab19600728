"""The verbs by sections, each built only when it is called: with forty of them, building all costs 0.15 s."""

from __future__ import annotations

from collections import UserDict
from types import FunctionType, ModuleType
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from cohabit.cli.declaring import add_verbs
from cohabit.cli.full_parser import for_typer

_sections: dict[str, typer.Typer] = {}


def add_module(title: str, module: ModuleType) -> None:
    """Add the verbs of a module to a section: by its `register`, else all its marked functions."""
    app = _sections.setdefault(title, typer.Typer(rich_markup_mode=None))
    if hasattr(module, "register"):
        module.register(app)
    else:
        own = (one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__)
        add_verbs(app, *(one for one in own if isinstance(one, FunctionType) and hasattr(one, "verb")))


class _Verbs(UserDict[str, Any]):
    """Maps names to commands in display order; a command is built when it is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, dict[str, str]] = {}  # section -> verb -> one line of help
        for title, holder in _sections.items():
            lines = self.told.setdefault(title, {})
            makers: list[CommandInfo | TyperInfo] = [*holder.registered_commands, *holder.registered_groups]
            for one in makers:
                name = str(one.name)
                self.data[name] = one
                if not one.hidden:
                    lines[name] = str(one.short_help)

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, TyperInfo):
            for one in found.typer_instance.registered_commands if found.typer_instance else []:
                one.callback = one.callback and for_typer(one.callback)
            self.data[name] = get_group_from_info(
                found, pretty_exceptions_short=True, rich_markup_mode=None, suggest_commands=True
            )
        elif isinstance(found, CommandInfo):
            found.callback = found.callback and for_typer(found.callback)
            self.data[name] = get_command_from_info(found, pretty_exceptions_short=True, rich_markup_mode=None)
        return self.data[name]


class Sections(TyperGroup):
    """The command itself: verbs under the titles of their sections."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.verbs = _Verbs()
        self.commands = self.verbs

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names."""
        return list(self.verbs)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one line for each verb, without building it."""
        width = max(len(name) for name in self.verbs)
        for title, lines in self.verbs.told.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in lines.items()])
