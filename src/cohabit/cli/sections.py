"""The verbs by sections, each built only when it is called: with forty of them, building all costs 0.15 s."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group_from_info

from cohabit.cli.full_parser import for_typer

_sections: dict[str, typer.Typer] = {}


def section(title: str) -> typer.Typer:
    """Return the app where the verbs of that section register themselves."""
    return _sections.setdefault(title, typer.Typer(rich_markup_mode=None))


class _Verbs(MutableMapping[str, Any]):
    """Maps names to commands in display order; a command is built when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self.told: dict[str, dict[str, str]] = {}  # section -> verb -> one line of help
        self._makers: dict[str, Any] = {}
        for title, holder in _sections.items():
            lines = self.told.setdefault(title, {})
            for one in holder.registered_commands:
                about = one.short_help or (one.callback.__doc__ if one.callback is not None else "") or ""
                if not one.hidden:
                    lines[str(one.name)] = about.strip().partition("\n")[0]
                self._makers[str(one.name)] = one
            for group in holder.registered_groups:
                name, about = (_said(group, key) for key in ("name", "short_help"))
                lines[name] = about
                self._makers[name] = group

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            maker = self._makers[name]
            if isinstance(maker, typer.models.TyperInfo):
                for one in maker.typer_instance.registered_commands if maker.typer_instance else []:
                    one.callback = one.callback and for_typer(one.callback)
                self._made[name] = get_group_from_info(
                    maker, pretty_exceptions_short=True, rich_markup_mode=None, suggest_commands=True
                )
            else:
                maker.callback = for_typer(maker.callback)
                self._made[name] = get_command_from_info(maker, pretty_exceptions_short=True, rich_markup_mode=None)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = self._makers[name] = command

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _said(group: typer.models.TyperInfo, key: str) -> str:
    """Return the setting of a group from where it was added, or from where it was made."""
    assert group.typer_instance is not None
    words = (getattr(group, key), getattr(group.typer_instance.info, key))
    return next(word for word in words if isinstance(word, str))


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
