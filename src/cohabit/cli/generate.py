"""`cohabit generate`: synthetic jobs, written as SWF or jobs.csv."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from cohabit.cli.console import show_result
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, check_seed, whole_numbers
from cohabit.model.errors import InputError


@verb(
    "generate",
    "Make synthetic jobs.",
    "cohabit generate lublin --jobs 10000 --nodes 1024 --load 0.85 -o jobs.swf",
    "cohabit generate poisson --jobs 1000000 --nodes 1024 --load 1.0 --seed 7 -o jobs.swf.xz",
    "cohabit generate mix --jobs 20 --programs MG=1,EP=2 --processes 16,28 --median-run-s 300 -o jobs.csv",
    "cohabit generate intrepid -o big.swf && cohabit generate eureka --load 0.5 -o small.swf",
)
def generate(
    kind: Annotated[str, Argument("lublin|poisson|mix|intrepid|eureka", "Which generator.")],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="jobs.swf or jobs.csv, also .gz or .xz.")],
    jobs: Annotated[int | None, Option(help="How many jobs; otherwise 1000, or a month of the machine.")] = None,
    nodes: Annotated[int | None, Option(help="Machine size; otherwise 128, or what the machine had.")] = None,
    load: Annotated[float | None, Option(help="Offered load; arrivals are stretched to meet it.")] = None,
    seed: Annotated[int, Option(help="Same seed, same jobs.")] = 1,
    mean_gap_s: Annotated[float | None, Option(help="poisson, mix: mean time between submissions.")] = None,
    median_run_s: Annotated[float | None, Option(help="poisson, mix: median run time.")] = None,
    sigma: Annotated[float | None, Option(help="poisson, mix: spread of the run times.")] = None,
    longest_run_s: Annotated[int | None, Option(help="poisson, mix: no run is longer.")] = None,
    sizes: Annotated[str | None, Option(metavar="N,N,...", help="poisson: sizes to choose from.")] = None,
    requests: Annotated[str | None, Option(help="Requested times: exact, factor or modal.")] = None,
    batch: Annotated[str | None, Option(help="lublin: batch, interactive, both or undivided.")] = None,
    programs: Annotated[str | None, Option(metavar="NAME=WEIGHT,...", help="mix: programs.")] = None,
    processes: Annotated[str | None, Option(metavar="N,N,...", help="mix: processes to choose from.")] = None,
    alpha: Annotated[float | None, Option(help="mix: slowdown threshold of every job.")] = None,
    span_days: Annotated[float | None, Option(help="eureka: from first to last submission.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make jobs: Lublin-Feitelson 2003, plain Poisson, a mix of named programs, or a month as on two machines."""
    from cohabit.app.scenario.tables import JobsConfig
    from cohabit.app.scenario.workloads import generate as make
    from cohabit.app.scenario.workloads import usual_nodes
    from cohabit.trace.catalogue import write_trace
    from cohabit.trace.synthetic import offered_load

    check_seed(seed)
    try:
        parts = [part.partition("=") for part in programs.split(",")] if programs else []
        weights = {name.strip(): float(weight or 1) for name, _, weight in parts} or None
    except ValueError:
        raise InputError(f"{programs!r} is not NAME=WEIGHT,...", "--programs", "write MG=1,EP=2") from None
    config = JobsConfig(
        generator=kind,
        jobs=jobs,
        load=load,
        mean_gap_s=mean_gap_s,
        median_run_s=median_run_s,
        sigma=sigma,
        longest_run_s=longest_run_s,
        sizes=whole_numbers("--sizes", sizes),
        requests=requests,
        kind=batch,
        programs=weights,
        processes=whole_numbers("--processes", processes),
        alpha=alpha,
        span_days=span_days,
    )
    for name in ("load", "mean_gap_s", "median_run_s", "sigma", "span_days"):
        value = getattr(config, name)
        if value is not None and not math.isfinite(value):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {value} is not a finite number", "", "give an ordinary number")
    nodes = usual_nodes(kind) if nodes is None else nodes
    workload = make(config, nodes, seed)
    write_trace(workload, output)
    known = bool((workload.run_us >= 0).all())
    offered = offered_load(workload.submit_us, workload.run_us, workload.processes, nodes) if known else None
    if offered is not None and not offered < 1e9:
        offered = None
    document = {"jobs": len(workload), "nodes": nodes, "seed": seed, "offered_load": offered, "file": str(output)}
    load_text = "" if offered is None else f", offered load {offered:.3f} on {nodes} nodes"
    show_result(document, as_json, f"wrote {len(workload):,} jobs to {output}{load_text}")
