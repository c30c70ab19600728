"""Pages of the documentation site that are made from the code, so that they cannot be out of date (an mkdocs hook).

Every command with its options and examples, every key of every file people write, every figure and event a living
scheduler tells, every event and order of the core, and the pages that live at the top of the repository. Nothing is
written into docs/.
"""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FROM_ELSEWHERE, OUR_OWN = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
TOP_PAGES = {"architecture": "ARCHITECTURE.md", "contributing": "CONTRIBUTING.md", "changes": "CHANGELOG.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    made = {
        "reference/commands.md": commands_page(), "reference/events.md": events_page(),
        "reference/keys.md": keys_page(), "reference/figures.md": figures_page(),
    }  # fmt: skip
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


# ---- keys of files --------------------------------------------------------------------------------------------------


def files_with_keys() -> dict[str, tuple[type[msgspec.Struct], str]]:
    """Every kind of file people write: its title, its root, and the page that explains it."""
    from cohabit.app.scenario.tables import Scenario
    from cohabit.app.serve.site_file import SiteTables
    from cohabit.app.steer.gridengine_site import GridEngineTables
    from cohabit.app.steer.slurm_site import SlurmTables

    return {
        "A scenario": (Scenario, "scenarios"), "The site file of one machine": (SiteTables, "live-reference"),
        "The site file on Slurm": (SlurmTables, "slurm-reference"),
        "The site file on Grid Engine": (GridEngineTables, "gridengine"),
    }  # fmt: skip


def tables_of(root: type[msgspec.Struct], path: str = "") -> dict[str, type[msgspec.Struct]]:
    """Every table of a file by its place in it, such as `[policy]` or `[[domain]]`; "": the top."""
    found = {path: root}
    hints = typing.get_type_hints(root)
    for field in msgspec.structs.fields(root):
        kinds, inner = [hints[field.name]], f"{path}.{field.encode_name}".lstrip(".")
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                found |= tables_of(kind, inner)
            if typing.get_origin(kind) is dict:
                inner += ".NAME"
            kinds += typing.get_args(kind)
    return found


def keys_page() -> str:
    """Every key with its type and what it is if it is left out."""
    lines = [
        "# Every key", "",
        "Of every file people write, as the program reads it. An unknown key is an error, with a suggestion.", "",
    ]  # fmt: skip
    shown: dict[type[msgspec.Struct], str] = {}
    for title, (root, page) in files_with_keys().items():
        lines += [f"## {title}", "", f"Explained in [{page}.md](../{page}.md).", ""]
        for path, kind in tables_of(root).items():
            name = f"`[{path}]`" if path else "At the top"
            if kind in shown:
                lines += [f"### {name}", "", f"The same keys as in {shown[kind]}.", ""]
                continue
            shown[kind] = f"{title.lower()}, {name if path else 'at the top'}"
            lines += [f"### {name}", "", (inspect.getdoc(kind) or "").split("\n\n")[0], "", *_keys(kind), ""]
    return "\n".join(lines)


def _keys(kind: type[msgspec.Struct]) -> list[str]:
    lines = ["| key | type | if left out | meaning |", "|---|---|---|---|"]
    comments = {name: text for one in reversed(_own(kind)) for name, text in _comments(one).items()}
    types = {name: text for one in reversed(_own(kind)) for name, text in one.__annotations__.items()}
    for field in msgspec.structs.fields(kind):
        said, what = str(types.get(field.name, "")).replace("|", "or"), comments.get(field.name, "")
        if re.search(r"[A-Z]\w+(Config|Table)\b", said):
            said, what = "table", what or "see below"
        lines.append(f"| `{field.encode_name}` | `{said}` | {_default(field)} | {what} |")
    return lines


def _own(kind: type[msgspec.Struct]) -> list[type]:
    """It and what it is made from, without the library's."""
    return [one for one in kind.__mro__ if one.__module__.startswith("cohabit.")]


def _default(field: Any) -> str:
    if field.required:
        return "must be given"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, msgspec.Struct) or value in (None, "", {}, []):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# ---- what a running scheduler tells ----------------------------------------------------------------------------------


def figures_page() -> str:
    """Figures for Prometheus and Server-Sent Events."""
    from cohabit.live.api.metrics import Metrics
    from cohabit.live.api.streams import KINDS

    lines = [
        "# Figures and events of a running scheduler", "", "## Figures", "",
        "`GET /metrics`, for Prometheus. Metrics of simulated runs are in [metrics.md](../metrics.md).", "",
        "| name | kind | labels | meaning |", "|---|---|---|---|",
    ]  # fmt: skip
    metrics = Metrics()
    for one in metrics.registry.collect():
        labels = sorted({name for made in vars(metrics).values() if getattr(made, "_name", "") == one.name
                         for name in getattr(made, "_labelnames", ())})  # fmt: skip
        name = f"{one.name}_total" if one.type == "counter" else one.name
        lines.append(
            f"| `{name}` | {one.type} | {', '.join(f'`{label}`' for label in labels) or '-'} | {one.documentation} |"
        )
    lines += [
        "",
        "## Events",
        "",
        "`GET /v1/events`, as Server-Sent Events.",
        "",
        "| event | data | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{kind}` | {data} | {meaning} |" for kind, (data, meaning) in KINDS.items()]
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
