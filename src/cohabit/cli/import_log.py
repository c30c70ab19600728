"""`cohabit import`: a batch system's own log, turned into a trace the simulator reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson
from cohabit.model.errors import InputError, unknown


@verb(
    "import",
    "Turn a batch system's log into a trace, or its slurm.conf into a scenario.",
    "sacct -a -X --parsable2 -o JobID,User,Submit,Start,End,ElapsedRaw,TimelimitRaw,NCPUS,State > log.txt",
    "cohabit import sacct log.txt -o jobs.csv",
    "cohabit import slurm-conf /etc/slurm/slurm.conf --jobs jobs.csv -o site.toml",
    "cohabit import gridengine accounting -o jobs.swf.xz",
)
def import_log(
    kind: Annotated[str, Argument("sacct|gridengine|lumos|cobalt|atlas|slurm-conf", "Whose log it is.")],
    file: Annotated[Path, Argument("FILE", "The log, also .gz or .xz.")],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="jobs.csv, jobs.swf; slurm-conf: a .toml.")],
    jobs: Annotated[Path | None, Option(metavar="FILE", help="slurm-conf: the jobs of the scenario.")] = None,
    qos: Annotated[Path | None, Option(metavar="FILE", help="slurm-conf: what sacctmgr -P show qos printed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read a log of Slurm, Grid Engine, Cobalt, LUMOS or ATLAS and write it as a trace.

    From a slurm.conf: write a scenario of the site as it schedules today, for `simulate`, `compare` and `advise`.
    """
    if kind == "slurm-conf":
        _import_conf(file, output, jobs, qos, as_json)
        return
    for option, value in (("--jobs", jobs), ("--qos", qos)):
        if value is not None:
            raise InputError(f"{option} is for slurm-conf", option, "leave it out")
    from cohabit.trace.catalogue import READERS, write_trace
    from cohabit.trace.records import without_place_in_swf

    logs = [name for name in READERS if name not in ("swf", "jobs")]
    if kind not in logs:
        raise unknown("log format", kind, [*logs, "slurm-conf"])
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


def _import_conf(file: Path, output: Path, jobs: Path | None, qos: Path | None, as_json: bool) -> None:
    from cohabit.app.scenario.slurm_conf import read_conf, scenario_of, written
    from cohabit.trace.files import read_text
    from cohabit.whole_files import replacing

    if output.suffix != ".toml":
        raise InputError("a scenario is a .toml file", str(output), "name it site.toml, for example")
    named = "jobs.csv" if jobs is None else str(jobs)
    tables, left_out = scenario_of(read_conf(file), named, "" if qos is None else read_text(qos))
    with replacing(output) as stream:
        stream.write(written(tables, left_out, str(file)).encode())
    groups, policy = tables["cluster"]["group"], tables["policy"]
    found = {"nodes": sum(one["nodes"] for one in groups), "cores": sum(one["nodes"] * one["cores"] for one in groups)}
    if as_json:
        show_json({**found, "policy": policy, "limits": tables["limit"], "left_out": left_out, "file": str(output)})
        return
    for what in left_out:
        note(f"not in the scenario: {what}")
    how = "whole nodes" if policy["placement"] == "exclusive" else "shared cores"
    typer.echo(
        f"wrote {found['nodes']:,} nodes with {found['cores']:,} cores in {len(groups)} kinds, {how}, order "
        f"{policy['order']}, {len(tables['limit'])} limits to {output}"
    )
