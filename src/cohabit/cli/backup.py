"""`cohabit backup` and `cohabit restore`: a controller's journal into one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cohabit.cli.console import note, progress, show_json
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson

PLACE = "The controller's site file, or the folder it serves from."


@verb("backup", "Copy a controller's journal while it runs.", "cohabit backup site.toml monday.db")
def backup(
    place: Annotated[Path, Argument("PLACE|SITE.toml", PLACE)],
    file: Annotated[Path, Argument("FILE", "A new file; nothing is overwritten.")],
    as_json: AsJson = False,
) -> None:
    """Copy all that a controller must not lose (facts, checkpoints, records of jobs) as it is at one instant.

    The controller may go on meanwhile. Output of jobs, tokens and the audit log are plain files of its place. Only its
    owner may read the copy, which has the environments of all jobs.
    """
    from cohabit.app.serve.replaying import journal_of
    from cohabit.live.controller.backup import back_up

    _, journal = journal_of(place)
    with progress("copying") as advance:
        copied = back_up(journal, file, advance)
    _say(as_json, "file", file, copied.jobs, copied.batches, copied.version)


@verb("restore", "Bring a copied journal back.", "cohabit restore monday.db site.toml")
def restore(
    file: Annotated[Path, Argument("FILE", "What `cohabit backup` wrote.")],
    place: Annotated[Path, Argument("PLACE|SITE.toml", PLACE)],
    replace: Annotated[bool, Option("--replace", help="Rename an existing journal (to journal.db.replaced).")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a backup the journal again; the controller must not be running.

    Jobs that ran when the backup was made and have left no trace since count as lost: they are queued again, unless
    they were submitted not to be.
    """
    from cohabit.app.serve.replaying import journal_of
    from cohabit.live.controller.backup import bring_back
    from cohabit.live.controller.place import only_one, open_place

    folder, _ = journal_of(place)
    with only_one(open_place(folder)), progress("copying") as advance:
        _, journal = journal_of(place)  # as it is now: an old place has been moved into its new form
        copied = bring_back(file, journal, replace, advance)
    _say(as_json, "journal", journal, copied.jobs, copied.batches, copied.version)


def _say(as_json: bool, what: str, where: Path | str, jobs: int, batches: int, version: int) -> None:
    shown = where if isinstance(where, Path) else where.rpartition("@")[2]
    if as_json:
        show_json({what: str(shown), "jobs": jobs, "batches": batches, "version": version})
    else:
        note(f"wrote {shown}: {jobs:,} jobs, {batches:,} batches since the checkpoint before the last")
