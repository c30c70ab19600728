"""The jobs of a scenario: read from a file or generated, and fitted to the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy.ma  # noqa: F401  numba asks for it with the first array: not to be loaded while a trace is read

from cohabit.app.scenario.programs import load_programs
from cohabit.app.scenario.reading import cluster_of
from cohabit.app.scenario.tables import JobsConfig, Scenario
from cohabit.core.protocols import SAME_ACCOUNT
from cohabit.model.errors import InputError, unknown
from cohabit.model.units import FOREVER, microseconds
from cohabit.model.workload import Workload
from cohabit.sim.streams import stream
from cohabit.trace.catalogue import read_trace

COUPLED = ("intrepid", "eureka")
GENERATORS = ("lublin", "poisson", "mix", *COUPLED)


def load_workload(scenario: Scenario) -> Workload:
    """Read or generate the jobs."""
    jobs = scenario.jobs
    if jobs.generator:
        cluster = scenario.cluster
        if jobs.generator == "mix" and scenario.programs.given and jobs.programs is None:
            return _sequence_of_all(scenario)
        whole = cluster.nodes or (usual_nodes(jobs.generator) if jobs.generator in COUPLED else 0)
        groups = [(group.nodes, group.cores) for group in cluster.group] or [(whole, cluster.cores)]
        return generate(jobs, sum(nodes * cores for nodes, cores in groups), scenario.seed)
    accounts = scenario.policy.share_with == SAME_ACCOUNT
    return _adapted(read_trace(Path(jobs.file or jobs.trace), accounts), scenario)


def _adapted(workload: Workload, scenario: Scenario) -> Workload:
    """Cut a log to a period, scale it to a load and shift it in time, as the scenario says."""
    jobs = scenario.jobs
    if (jobs.from_s, jobs.until_s, jobs.load, jobs.shift_s) == (None, None, None, None):
        return workload
    from cohabit.trace.coupled_machines import scaled_to_load, shifted, within

    if jobs.from_s is not None or jobs.until_s is not None:
        begin_us = -FOREVER if jobs.from_s is None else microseconds(jobs.from_s)
        end_us = FOREVER if jobs.until_s is None else microseconds(jobs.until_s)
        workload = within(workload, begin_us, end_us)
        if not len(workload):
            raise InputError("has no jobs between from_s and until_s", workload.source, "they are on the log's clock")
    if jobs.load is not None:
        cores = sum(group.nodes * group.cores for group in scenario.cluster.group) or (
            machine_size(scenario, workload) * scenario.cluster.cores
        )
        workload = scaled_to_load(workload, cores, jobs.load)
    return workload if jobs.shift_s is None else shifted(workload, microseconds(jobs.shift_s))


def _sequence_of_all(scenario: Scenario) -> Workload:
    """Return jobs of all the scenario's programs, drawn evenly until their scaling ratio is the requested one."""
    from cohabit.trace.mix import generate_sequence

    jobs, cluster = scenario.jobs, cluster_of(scenario.cluster, max(scenario.cluster.nodes, 1))
    unused = [key for key in ("load", "mean_gap_s", "median_run_s", "sizes", "kind", "requests") if getattr(jobs, key)]
    if unused:
        raise InputError(
            f"jobs.{unused[0]} does not go with a mix of all programs", "jobs", "name programs with weights, or drop it"
        )
    ratio = None if jobs.ratio is None else tuple(jobs.ratio)
    if ratio is not None and len(ratio) != 2:
        raise InputError(f"jobs.ratio = {jobs.ratio} is not a range", "jobs", "write ratio = [0.4, 0.8]")
    count = 20 if jobs.jobs is None else jobs.jobs
    return generate_sequence(
        stream(scenario.seed, "workload"),
        load_programs(scenario.programs, cluster),
        count,
        tuple(jobs.processes or (16, 28)),
        ratio,
        node=cluster.groups[0],
        nodes=cluster.nodes,
        alpha=jobs.alpha,
    )


def generate(jobs: JobsConfig, nodes: int, seed: int) -> Workload:
    """Generate jobs with the named generator; refuse options it does not know."""
    if jobs.generator not in GENERATORS:
        raise unknown("generator", jobs.generator, GENERATORS)
    if nodes < 1 and jobs.generator != "mix":
        raise InputError(f"the generator {jobs.generator} needs the size of the machine", "nodes", "give a number")
    options: dict[str, Any] = {
        key: value
        for key, value in msgspec.structs.asdict(jobs).items()
        if value is not None and key not in ("file", "trace", "generator", "jobs")
    }
    rng, count = stream(seed, "workload"), 1000 if jobs.jobs is None else jobs.jobs
    if jobs.generator in COUPLED and jobs.jobs is not None:
        options["jobs"] = jobs.jobs
    try:
        if jobs.generator in COUPLED:
            from cohabit.trace import coupled_machines

            make = {
                "intrepid": coupled_machines.generate_intrepid,
                "eureka": coupled_machines.generate_eureka,
            }[jobs.generator]
            return make(rng, nodes=nodes, **options)
        if jobs.generator == "lublin":
            from cohabit.trace.lublin import generate_lublin

            return generate_lublin(rng, count, nodes, **options)
        if jobs.generator == "poisson":
            from cohabit.trace.poisson import generate_poisson

            return generate_poisson(rng, count, nodes, **options)
        from cohabit.trace.mix import generate_mix

        return generate_mix(
            rng, count, options.pop("programs", {}), options.pop("processes", []), nodes=nodes, **options
        )
    except TypeError as error:
        key = str(error).rpartition("argument ")[2].strip("'") or str(error)
        raise InputError(f"the generator {jobs.generator} has no option {key!r}", "jobs") from error


def usual_nodes(generator: str) -> int:
    """Return the default number of nodes for a generator."""
    if generator in COUPLED:
        from cohabit.trace.coupled_machines import EUREKA_NODES, INTREPID_NODES

        return INTREPID_NODES if generator == "intrepid" else EUREKA_NODES
    return 128


def machine_size(scenario: Scenario, workload: Workload) -> int:
    """Return the number of nodes: from the scenario, else from the trace's header."""
    if scenario.cluster.group:
        return sum(group.nodes for group in scenario.cluster.group)
    packed_procs = -(-workload.max_procs // scenario.cluster.cores)
    nodes = scenario.cluster.nodes or workload.max_nodes or packed_procs
    if nodes < 1:
        raise InputError(
            "the trace does not say how large its machine is", workload.source or "trace", "give --nodes N"
        )
    return nodes
