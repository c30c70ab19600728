"""What one can ask of a living scheduler, one method per question; the wire is client_connection's business.

Instants are Unix seconds and spans seconds, as the API gives them. It must never guess what the server did not say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from cohabit.app.client.connection import Connection, Refused, find_server, find_token, quoted

PAGE = 1000
NOT_FOUND = 404
WAIT_S = 60.0  # one question; asked again until the job is over
PRUNE_S = 86_400.0
OVER = ("done", "failed", "killed", "cancelled", "lost", "rejected")

View = dict[str, Any]


class Client:
    """A scheduler as its users see it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.address = str(connection.address)
        self.is_here = bool(connection.address.path)  # on this machine, and so with the same files

    def ping(self) -> View:
        """Which scheduler it is, and who it takes us for."""
        return self._ask("GET", "/ping")

    def submit(self, submission: View, dry_run: bool = False) -> View:
        """Hand in a job: {"job", "members"}; as a dry run, when and where it would start."""
        return self._ask("POST", "/jobs", submission, {"dry_run": True} if dry_run else None)

    def jobs(self, state: str = "", user: str = "", most: int = PAGE) -> tuple[list[View], bool]:
        """The newest jobs of that kind, at most so many, and whether there are more."""
        found: list[View] = []
        cursor = None
        while len(found) < most:
            query = {"state": state or None, "user": user or None, "limit": min(PAGE, most - len(found)),
                     "before": cursor}  # fmt: skip
            page = self._ask("GET", "/jobs", None, query)
            found += page["jobs"]
            cursor = page["next"]
            if cursor is None:
                return found, False
        return found, True

    def job(self, name: str) -> View:
        """All that is known of a job."""
        return self._ask("GET", _of(name))

    def is_known(self, name: str) -> bool:
        """Whether there is such a job, ours or not."""
        try:
            self.job(name)
        except Refused as error:
            return error.status != NOT_FOUND
        return True

    def why(self, name: str) -> View:
        """What the job waits for, now and before."""
        return self._ask("GET", _of(name, "why"))

    def act(self, name: str, action: str) -> View:
        """Cancel, hold, release or requeue; the job afterwards, when that is durable."""
        return self._ask("POST", _of(name, action))

    def change(self, name: str, wishes: View) -> View:
        """Change the limit or the priority of a job."""
        return self._ask("PATCH", _of(name), wishes)

    def wait(self, name: str, until: float | None = None) -> View:
        """The job as soon as it is over, or as it is when the monotonic clock shows `until`."""
        while True:
            left = WAIT_S if until is None else min(max(until - time.monotonic(), 0.0), WAIT_S)
            status, view = self._connection.ask("GET", _of(name, "wait"), None, {"timeout_s": left}, left + 30)
            if status == 200 or (until is not None and time.monotonic() >= until):
                return dict(view)

    def output(self, name: str, stream: str = "stdout", follow: bool = False, offset: int = 0) -> Iterator[bytes]:
        """What the job has written; with `follow` also what it will write, until it is over."""
        query = {"stream": stream, "follow": follow, "offset": offset}
        return self._connection.stream(_of(name, "output"), query)

    def nodes(self) -> list[View]:
        """Every node with what runs there."""
        return list(self._ask("GET", "/nodes")["nodes"])

    def act_on_node(self, number: int, action: str) -> View:
        """Drain or resume a node."""
        return self._ask("POST", f"/nodes/{number}/{action}")

    def share_profile(self, program: str, user: str) -> View:
        """Make what is known from a user's runs of a program the profile of all users."""
        return self._ask("POST", "/profiles/share", {"program": program, "user": user})

    def accounting(self, since: float | None, until: float | None, user: str, form: str) -> str:
        """The records of jobs in that form: json, csv or sacct."""
        query = {"since": since, "until": until, "user": user or None, "format": form}
        return self._connection.text("/accounting", query)

    def slowdowns(self) -> View:
        """How much neighbours were expected to slow jobs, and how much they did."""
        return self._ask("GET", "/slowdowns")

    def page_link(self) -> View:
        """A link to the page that opens once, as us; over the socket only."""
        return self._ask("POST", "/page/link", {})

    def audit(self, most: int) -> View:
        """Who did what."""
        return self._ask("GET", "/audit", None, {"limit": most})

    def prune(self, dry_run: bool) -> View:
        """Remove what is not kept any longer, or say what would be removed; however long it takes."""
        query = {"dry_run": dry_run}
        return dict(self._connection.ask("POST", "/prune", None, query, patience_s=PRUNE_S)[1])

    def tokens(self) -> View:
        """What is kept of every token."""
        return self._ask("GET", "/tokens")

    def add_token(self, wish: View) -> View:
        """A new one, with the token itself: shown this once."""
        return self._ask("POST", "/tokens", wish)

    def rotate_token(self, name: str, overlap_s: float) -> View:
        """Another one like it, which goes on for a while."""
        return self._ask("POST", f"/tokens/{quoted(name)}/rotate", {"overlap_s": overlap_s})

    def revoke_token(self, name: str) -> View:
        """It opens nothing any more."""
        return self._ask("DELETE", f"/tokens/{quoted(name)}")

    def _ask(self, method: str, path: str, body: Any = None, query: View | None = None) -> View:
        return dict(self._connection.ask(method, path, body, query)[1])


def connect(server: str | None) -> Client:
    """The scheduler of that address, of COHABIT_SERVER or of the default place."""
    address = find_server(server)
    return Client(Connection(address, find_token() if address.url else ""))


def _of(name: str, what: str = "") -> str:
    return f"/jobs/{quoted(name)}" + (f"/{what}" if what else "")
