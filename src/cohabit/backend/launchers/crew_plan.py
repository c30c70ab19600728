"""Plans for the crew: the processes of a job. Pure; crew.py carries them out.

Words of argv and environment may contain placeholders for values known only at the start, written by `port(0)` or
`told("name")`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cohabit.backend.launchers.contract import NodeShare, Prepared, Request, Site

PLAN = "crew.json"
PATIENCE_S = 300.0  # a server that is not ready by then never is; a Java machine on busy cores takes a minute
PROGRAM = __file__.replace("crew_plan.py", "crew.py")


class Member(msgspec.Struct, frozen=True):
    """One process. A process with `ready` is a server."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str] = {}  # in addition to the job's
    cores: tuple[int, ...] = ()  # empty: no binding
    remote: tuple[str, ...] = ()  # how to reach its machine; empty: this machine
    log: str = ""  # a file for its output; empty: the job's own
    ready: str = ""  # an expression in its log that means it is ready; later processes get its named groups


class Plan(msgspec.Struct, frozen=True):
    """All processes. Servers live as long as the workers; the status of the job is the worst of the workers'."""

    workers: tuple[Member, ...]
    servers: tuple[Member, ...] = ()
    together: bool = False  # workers need each other: if one fails, the others are stopped
    ports: int = 0  # number of free ports needed
    scratch: tuple[str, ...] = ()  # folders that are made at the start and removed at the end
    patience_s: float = PATIENCE_S


def port(index: int) -> str:
    """Return the placeholder of a free port on the first node."""
    return f"@cohabit:port{index}@"


def told(name: str) -> str:
    """Return the placeholder of a value from a server's log."""
    return f"@cohabit:{name}@"


def reach(node: NodeShare, site: Site) -> tuple[str, ...]:
    """Return how to start a process on that node; empty: it is on this machine."""
    return () if node.host in site.here else (*site.remote_shell, node.host)


def run_crew(request: Request, site: Site, plan: Plan, environment: dict[str, str], notes: Sequence[str]) -> Prepared:
    """Return the argv that carries out the plan."""
    argv = (site.python, "-I", "-S", PROGRAM, f"{request.folder}/{PLAN}")
    return Prepared(argv, environment, {PLAN: msgspec.json.encode(plan).decode()}, tuple(notes))


def beyond(environment: dict[str, str], request: Request, remote: tuple[str, ...]) -> dict[str, str]:
    """Return the environment of a process on another machine, which does not inherit the job's environment."""
    return {**request.environment, **environment} if remote else {}
