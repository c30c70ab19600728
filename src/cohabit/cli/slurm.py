"""`cohabit slurm`: steer a cluster under Slurm, watch it without touching it, look at both views, give it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli import steering
from cohabit.cli.advise import show_gains
from cohabit.cli.console import note, show_json, table
from cohabit.cli.declaring import verb
from cohabit.cli.interrupts import stop_on_signals
from cohabit.cli.options import duration_s
from cohabit.cli.steering import JSON, SITE, Steered
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.app.steer.slurm_site import SlurmSite
    from cohabit.app.steer.switch import Switch

ABOUT = "Decide for a Slurm cluster, or only watch it; Slurm keeps accounts, launching and limits."
SHORT = "On top of Slurm: attach, shadow, status, reload, detach."


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    steered = Steered("slurm", "Slurm", ABOUT, SHORT, _read, _switch, _headline, lambda theirs: [])
    steering.register(app, steered, "shadow", shadow)


def _read(path: Path) -> SlurmSite:
    from cohabit.app.steer.slurm_site import read_slurm_site

    return read_slurm_site(path)


def _switch(path: Path) -> Switch:
    from cohabit.app.steer.slurm_switch import read_switch

    return read_switch(path)


def _headline(theirs: dict[str, Any]) -> str:
    return f"Slurm {theirs['version']}, {theirs['nodes']} nodes of {', '.join(theirs['partitions'])}"


@verb(
    "shadow",
    "Watch without touching anything, then say what the policy would have done.",
    "cohabit slurm shadow site.toml",
    "cohabit slurm shadow site.toml --for 3d --report shadow.html",
)
def shadow(
    site: SITE,
    how_long: Annotated[str, typer.Option("--for", help="How long to watch, such as 90s, 2h or 3d.")] = "1h",
    slower_pct: Annotated[
        float, typer.Option("--slower", help="Pessimistic case: slowdown of jobs that share, in percent.")
    ] = 10.0,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="Write pictures of Slurm and the policy.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Issues no command that could change anything. Ctrl-C ends it early; the next run adds to what was seen.

    The answer is a simulation of the policy with the jobs and run times Slurm saw.
    """
    import asyncio

    length_s = duration_s("--for", how_long)
    if not 0 <= slower_pct <= 1000:
        raise InputError(f"{slower_pct:g} %", "--slower", "give a number from 0 to 1000")
    found = asyncio.run(_shadow(_read(site), length_s, slower_pct / 100, report))
    if as_json:
        show_json(found)
        return
    name = found["name"]
    cases = {"Slurm": "slurm", name: "policy", f"{name}, pessimistic": "policy_pessimistic"}
    rows = [[title, *(f"{value:,.2f}" for value in found[case].values())] for title, case in cases.items()]
    table(f"{found['jobs']} jobs in {found['hours']:g} h", ["", "mean wait s", "mean turnaround s", "node-hours"], rows)
    for case, one in found["difference"].items():
        wait = one["wait_s"]
        bounds = "" if wait["low"] is None else f" (95 %: {wait['low']:+.1f} to {wait['high']:+.1f} s)"
        typer.echo(f"{case.replace('_', ', ')}: wait {wait['mean']:+.1f} s against Slurm{bounds}")
    if found["start_latency_s"]:
        took = f"{found['start_latency_s']:g} s"
        typer.echo(
            f"Slurm took {took} to start jobs that could start at once; the policy's starts get the same latency"
        )
    typer.echo(
        f"{found['would_share']} jobs would have shared nodes (pessimistic: each {found['slower_pct']:g} % slower); "
        f"{found['left_to_slurm']} would have been left to Slurm; {found['still_going']} had not ended; "
        f"{found['not_watched']} were submitted before the watch began and only occupy nodes"
    )
    show_gains(found, "under Slurm", f"{name}, pessimistic")
    typer.echo(found["verdict"])
    if report is not None:
        typer.echo(f"wrote {report}")


async def _shadow(site: SlurmSite, length_s: float, slower: float, report: Path | None) -> dict[str, Any]:
    import time

    from cohabit.app.steer.slurm_shadow import judge, watch
    from cohabit.backend.slurm.calls import ReadOnly

    ended, stop = time.monotonic() + length_s, stop_on_signals()
    seen = await watch(site, lambda: stop.is_set() or time.monotonic() > ended, note)
    return judge(site, await site.discover(ReadOnly(site.table.conf)), seen, slower, report)
