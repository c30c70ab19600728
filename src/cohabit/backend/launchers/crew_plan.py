"""Plans for the crew: which processes a job consists of. Pure; crew.py carries them out and says what it needs.

Words of argv and environment may contain what is known only at the start, as `port(0)` or `told("name")` write it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cohabit.backend.launchers.contract import NodeShare, Prepared, Request, Site

PLAN = "crew.json"
PATIENCE_S = 300.0  # a server that is not ready after so long will not be; a Java machine on busy cores takes a minute
PROGRAM = __file__.replace("crew_plan.py", "crew.py")


class Member(msgspec.Struct, frozen=True):
    """One process. A server is one that has `ready`."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str] = {}  # beside the job's
    cores: tuple[int, ...] = ()  # empty: no binding
    remote: tuple[str, ...] = ()  # how to reach its machine; empty: it is this one
    log: str = ""  # a file for its output; empty: the job's own
    ready: str = ""  # an expression in its log that means it is ready; its named groups are told to those after it


class Plan(msgspec.Struct, frozen=True):
    """All of them. Servers live for as long as the workers; the status of the job is the worst of the workers'."""

    workers: tuple[Member, ...]
    servers: tuple[Member, ...] = ()
    together: bool = False  # workers need each other: the first that fails takes the others with it
    ports: int = 0  # how many free ports are needed
    scratch: tuple[str, ...] = ()  # folders that are made at the start and go when all is over
    patience_s: float = PATIENCE_S


def port(index: int) -> str:
    """Stands for a free port on the first node."""
    return f"@cohabit:port{index}@"


def told(name: str) -> str:
    """Stands for what a server's log said."""
    return f"@cohabit:{name}@"


def reach(node: NodeShare, site: Site) -> tuple[str, ...]:
    """How to start something on that node; empty: it is on this machine."""
    return () if node.host in site.here else (*site.remote_shell, node.host)


def run_crew(request: Request, site: Site, plan: Plan, environment: dict[str, str], notes: Sequence[str]) -> Prepared:
    """The argv that carries out the plan."""
    argv = (site.python, "-I", "-S", PROGRAM, f"{request.folder}/{PLAN}")
    return Prepared(argv, environment, {PLAN: msgspec.json.encode(plan).decode()}, tuple(notes))


def beyond(environment: dict[str, str], request: Request, remote: tuple[str, ...]) -> dict[str, str]:
    """What a process on another machine must be told: the job's environment does not come along by itself."""
    return {**request.environment, **environment} if remote else {}
