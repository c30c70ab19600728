"""Pages of the documentation site that are made from the code, so that they cannot be out of date (an mkdocs hook).

Every command with its options and examples, every event and order of the core, and the pages that live at the top of
the repository. Nothing is written into docs/.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FROM_ELSEWHERE, OUR_OWN = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
TOP_PAGES = {"architecture": "ARCHITECTURE.md", "contributing": "CONTRIBUTING.md", "changes": "CHANGELOG.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    made = {"reference/commands.md": commands_page(), "reference/events.md": events_page()}
    for name, source in TOP_PAGES.items():
        made[f"reference/{name}.md"] = _from_the_top((ROOT / source).read_text())
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme's search on disk loads a small script from elsewhere; docs/assets has it."""
    return output.replace(FROM_ELSEWHERE, "../" * page.url.count("/") + OUR_OWN)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for pages that are no page of ours, such as 404.html."""
    return output_content.replace(FROM_ELSEWHERE, OUR_OWN)


def _from_the_top(text: str) -> str:
    """The same page one folder down: links into docs/ lose that folder, other top pages are beside it."""
    text = re.sub(r"\]\(docs/", "](../", text)
    for name, source in TOP_PAGES.items():
        text = text.replace(f"]({source}", f"]({name}.md")
    return text


def commands_page() -> str:
    """Every verb as its own help says it."""
    import typer.main

    from cohabit.cli.main import app

    command: Any = typer.main.get_command(app)
    context = command.make_context("cohabit", ["policies"], resilient_parsing=True)
    lines = ["# Every command", "", "As `--help` prints it; `cohabit --version` says which version you have.", ""]
    for name in command.list_commands(context):
        lines += _command(command.get_command(context, name), f"cohabit {name}", context)
    return "\n".join(lines)


def _command(command: Any, title: str, parent: Any) -> list[str]:
    if command.hidden:
        return []
    context = command.context_class(command, info_name=title.rpartition(" ")[2], parent=parent)
    lines = [f"## `{title}`", "", "```text", command.get_help(context).strip(), "```", ""]
    for name in getattr(command, "commands", {}):
        lines += _command(command.commands[name], f"{title} {name}", context)
    return lines


def events_page() -> str:
    """Facts that go into the core and orders that come out, with their fields."""
    from cohabit.model import command, event, peer

    lines = [
        "# Events and orders of the core", "",
        "`SchedulerCore.step(now_us, events) -> commands`: facts in, orders out. Times are microseconds.", "",
    ]  # fmt: skip
    for title, module in (("Facts", event), ("Orders", command), ("Between domains", peer)):
        lines += [f"## {title}", ""]
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__ and issubclass(kind, msgspec.Struct):
                lines += _struct(name, kind)
    return "\n".join(lines)


def _struct(name: str, kind: type[msgspec.Struct]) -> list[str]:
    comments = _comments(kind)
    lines = [f"### {name}", "", inspect.getdoc(kind) or "", ""]
    fields = msgspec.structs.fields(kind)
    if fields:
        lines += ["| field | type | meaning |", "|---|---|---|"]
    for field in fields:
        said = str(kind.__annotations__.get(field.name, "")).replace("|", "or")
        lines.append(f"| `{field.name}` | `{said}` | {comments.get(field.name, '')} |")
    return [*lines, ""]


def _comments(kind: type) -> dict[str, str]:
    """What stands behind a field in the source."""
    found = re.findall(r"^    (\w+): [^#\n]+#\s*(.+)$", inspect.getsource(kind), re.MULTILINE)
    return {name: text.replace("|", "or") for name, text in found}
