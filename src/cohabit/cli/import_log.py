"""`cohabit import`: a batch system's own log, turned into a trace the simulator reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson
from cohabit.model.errors import unknown


@verb(
    "import",
    "Turn a batch system's log into a trace.",
    "sacct -a -X --parsable2 -o JobID,User,Submit,Start,End,ElapsedRaw,TimelimitRaw,NCPUS,State > log.txt",
    "cohabit import sacct log.txt -o jobs.swf",
    "cohabit import gridengine accounting -o jobs.swf.xz",
)
def import_log(
    kind: Annotated[str, Argument("sacct|gridengine|lumos|cobalt|atlas", "Whose log it is.")],
    file: Annotated[Path, Argument("FILE", "The log, also .gz or .xz.")],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="jobs.swf or jobs.csv.")],
    as_json: AsJson = False,
) -> None:
    """Read a log of Slurm, Grid Engine, Cobalt, LUMOS or ATLAS and write it as a trace."""
    from cohabit.trace.catalogue import READERS, write_trace
    from cohabit.trace.records import without_place_in_swf

    logs = [name for name in READERS if name not in ("swf", "jobs")]
    if kind not in logs:
        raise unknown("log format", kind, logs)
    workload = READERS[kind](file)
    write_trace(workload, output)
    if as_json:
        show_json({"jobs": len(workload), "defects": dict(workload.defects), "file": str(output)})
        return
    for what, count in workload.defects.items():
        note(f"{count:,} {what}")
    if ".swf" in output.suffixes and (lost := without_place_in_swf(workload)):
        note(f"SWF has no place for {lost}: -o {output.name.partition('.')[0]}.csv keeps them")
    typer.echo(f"wrote {len(workload):,} jobs to {output}")
