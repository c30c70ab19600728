"""`cohabit prune`: remove what the site file says is not kept any longer, now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, show_result
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.job_words import counted
from cohabit.cli.options import AsJson, Server, asking, check_not_both

if TYPE_CHECKING:
    from cohabit.app.serve.serving import ServeConfig

WORDS = {
    "records": ("record", "of finished jobs"), "outputs": ("output", "in the place"),
    "audit": ("file", "of the audit log"), "journal": ("batch", "of the journal"),
}  # fmt: skip


@verb(
    "prune",
    "Remove old records and outputs; for operators.",
    "cohabit prune --dry-run",
    "cohabit prune /var/lib/cohabit    (also while it is stopped)",
)
def prune(
    place: Annotated[
        Path | None, Argument("[PLACE|SITE.toml]", "Of a controller that may be stopped; else the running one.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be removed, and its size.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Remove records, outputs, audit log and journal older than [keep] of the site file says.

    A running controller does this by itself, every hour. A stopped place is pruned directly, and the file of its
    journal is written anew, so that it becomes smaller.
    """
    check_not_both("PLACE", "--server", place is not None and server is not None)
    config = None if place is None else _config(place)
    if config is not None and not _lives(config):
        from cohabit.app.serve.pruning import prune_stopped

        found = prune_stopped(config, dry_run, note).document(dry_run)
    else:
        with asking(server if config is None else str(_socket(config))) as client:
            found = client.prune(dry_run)
    show_result(found, as_json, _show)


def _config(path: Path) -> ServeConfig:
    """Return the settings of a site file; of a folder, its site.toml, or the defaults if it has none."""
    from cohabit.app.serve.serving import ServeConfig
    from cohabit.app.serve.site_file import read_site
    from cohabit.live.controller.place import Place

    site = Place(path).site if path.is_dir() else path
    if path.is_dir() and not site.exists():
        return ServeConfig(path.absolute())
    return read_site(site).config


def _socket(config: ServeConfig) -> Path:
    from cohabit.live.controller.place import Place

    named = None if config.api is None else config.api.socket
    return Place(config.place).socket if named is None else named


def _lives(config: ServeConfig) -> bool:
    """Return whether a controller answers there."""
    import socket

    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.connect(str(_socket(config)))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # the later request reports what is wrong
    return True


def _show(found: dict[str, Any]) -> None:
    parts = []
    for key, (word, of) in WORDS.items():
        if count := found[key]["count"]:
            many = f"{count:,} batches" if word == "batch" and count != 1 else counted(count, word)
            parts.append(f"{many} {of} ({_size(found[key]['bytes'])})")
    dry_run = found["dry_run"]
    if parts:
        typer.echo(f"{'would be removed' if dry_run else 'removed'}: {', '.join(parts)}")
    else:
        typer.echo(f"nothing {'would be' if dry_run else 'was'} removed")


def _size(count: int) -> str:
    """Format a number of bytes."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
