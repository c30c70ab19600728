"""The reference leaves nothing out: every command, key, metric, figure and event stands on a page of the docs."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from cohabit.live.api import feed, streams
from cohabit.live.api.metrics import Metrics
from cohabit.model import command, event, peer
from cohabit.report.mates import MATES_GLOSSARY
from cohabit.report.wording import GLOSSARY

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXPLAINED = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The hook that makes the pages."""
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / "scripts" / "docs_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verbs(command: Any, title: str) -> list[str]:
    inner = {} if command.hidden else getattr(command, "commands", {})
    own = [] if command.hidden else [title]
    return [*own, *(name for key, one in inner.items() for name in verbs(one, f"{title} {key}"))]


def test_every_command_with_an_example(pages: ModuleType) -> None:
    import typer.main

    from cohabit.cli.main import app

    page, root = pages.commands_page(), typer.main.get_command(app)
    context = root.make_context("cohabit", ["policies"], resilient_parsing=True)
    names = [name for verb in root.list_commands(context)  # type: ignore[attr-defined]
             for name in verbs(root.get_command(context, verb), f"cohabit {verb}")]  # type: ignore[attr-defined]  # fmt: skip
    assert len(names) > 40
    for name in names:
        assert f"## `{name}`\n" in page, name
    sections = re.split(r"^## `", page, flags=re.MULTILINE)[1:]
    assert not [one.split("`")[0] for one in sections if "Example" not in one and "Commands" not in one]


def test_every_key_has_a_row_and_a_meaning(pages: ModuleType) -> None:
    page = pages.keys_page()
    for title, (root, explained_in) in pages.files_with_keys().items():
        assert (DOCS / f"{explained_in}.md").is_file()
        for path, kind in pages.tables_of(root).items():
            for field in msgspec.structs.fields(kind):
                row = re.search(rf"^\| `{field.encode_name}` \| .*$", page, re.MULTILINE)
                assert row, (title, path, field.encode_name)
                name = field.encode_name
                named = (
                    rf"(`|\[)(\w+\.)*{name}\b|^{name} = .*# "  # in words, as a table, or in an example with a remark
                )
                told = row[0].rsplit(" | ", 1)[1].strip(" |") or re.search(named, EXPLAINED, re.MULTILINE)
                assert told, (title, path, field.encode_name)


def test_every_event_and_order_of_the_core(pages: ModuleType) -> None:
    page = pages.events_page()
    for module in (event, command, peer):
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__ and issubclass(kind, msgspec.Struct):
                assert f"### {name}\n" in page
                for field in msgspec.structs.fields(kind):
                    assert f"| `{field.name}` |" in page, name


def test_every_figure_and_event_of_a_living_scheduler(pages: ModuleType) -> None:
    page = pages.figures_page()
    figures = [one.name for one in Metrics().registry.collect()]
    assert len(figures) > 10
    assert not [name for name in figures if f"`{name}`" not in page and f"`{name}_total`" not in page]
    source = inspect.getsource(streams) + inspect.getsource(feed)
    sent = {*re.findall(r"event: ([a-z]+)", source), "job", "node"}
    assert sent == set(streams.KINDS)
    assert not [kind for kind in streams.KINDS if f"| `{kind}` |" not in page]


def test_every_metric() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in (*GLOSSARY, *MATES_GLOSSARY) if f"`{name}`" not in page]


def test_the_pages_are_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in ("commands", "keys", "events", "figures"):
        assert f"reference/{name}.md" in menu
