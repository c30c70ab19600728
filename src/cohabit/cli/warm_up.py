"""`cohabit warm-up`: compile every kernel once, so that the first real run starts at once. make setup calls it."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    example = "\b\nExample:\n  cohabit warm-up"
    app.command(name="warm-up", short_help="Compile everything now, not at the first run.", epilog=example)(warm_up)


def warm_up() -> None:
    """Compile the kernels and the built-in orders that change with time."""
    import tempfile
    from pathlib import Path

    from cohabit.app import matching, optimising, simulation
    from cohabit.app.scenario import scenario_from
    from cohabit.app.workloads import load_workload
    from cohabit.cli.console import note
    from cohabit.policy.registry import ORDERS
    from cohabit.trace.catalogue import read_trace, write_trace

    note("compiling kernels, once (about a minute) ...")
    plain = {"cluster": {"nodes": 16}, "jobs": {"generator": "poisson", "jobs": 40, "load": 1.0}}
    jobs = load_workload(scenario_from(plain, "warm-up"))
    with tempfile.TemporaryDirectory() as folder:
        write_trace(jobs, Path(folder) / "jobs.swf")
        jobs = read_trace(Path(folder) / "jobs.swf")
    for name, entry in ORDERS.items():
        if entry.changing or name == "fcfs":
            prepared = simulation.prepare(scenario_from(plain | {"policy": {"order": name}}, "warm-up"), jobs)
            simulation.run(prepared, engine="fast")
            simulation.run(prepared, engine="steps")
    optimising.get_all_ready()
    matching.get_ready()
    note("kernels are ready")
