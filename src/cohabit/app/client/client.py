"""The client of a running scheduler: one method per request. client_connection does the transport.

Instants are Unix seconds and spans are seconds, as in the API. It must never guess what the server did not report.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from cohabit.app.client.connection import Connection, Refused, find_server, find_token, quoted

PAGE = 1000
NOT_FOUND = 404
WAIT_S = 60.0  # for one request; repeated until the job has ended
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
        """Return which scheduler it is, and the user and role it assigns to the caller."""
        return self._ask("GET", "/ping")

    def submit(self, submission: View, dry_run: bool = False) -> View:
        """Submit a job: {"job", "members"}; as a dry run, return when and where it would start."""
        return self._ask("POST", "/jobs", submission, {"dry_run": True} if dry_run else None)

    def jobs(self, state: str = "", user: str = "", most: int = PAGE) -> tuple[list[View], bool]:
        """Return the newest jobs of that kind, at most `most`, and whether there are more."""
        found: list[View] = []
        cursor = None
        while len(found) < most:
            query = {
                "state": state or None,
                "user": user or None,
                "limit": min(PAGE, most - len(found)),
                "before": cursor,
            }
            page = self._ask("GET", "/jobs", None, query)
            found += page["jobs"]
            cursor = page["next"]
            if cursor is None:
                return found, False
        return found, True

    def job(self, name: str) -> View:
        """Return everything that is known of a job."""
        return self._ask("GET", _of(name))

    def is_known(self, name: str) -> bool:
        """Return whether the job exists, even if it belongs to another user."""
        try:
            self.job(name)
        except Refused as error:
            return error.status != NOT_FOUND
        return True

    def why(self, name: str) -> View:
        """Return what the job waits for, now and before."""
        return self._ask("GET", _of(name, "why"))

    def act(self, name: str, action: str) -> View:
        """Cancel, hold, release or requeue a job; return it once the change is durable."""
        return self._ask("POST", _of(name, action))

    def change(self, name: str, wishes: View) -> View:
        """Change the limit or the priority of a job."""
        return self._ask("PATCH", _of(name), wishes)

    def wait(self, name: str, until: float | None = None) -> View:
        """Return the job as soon as it has ended, or its state when the monotonic clock reaches `until`."""
        while True:
            left = WAIT_S if until is None else min(max(until - time.monotonic(), 0.0), WAIT_S)
            status, view = self._connection.ask("GET", _of(name, "wait"), None, {"timeout_s": left}, left + 30)
            if status == 200 or (until is not None and time.monotonic() >= until):
                return dict(view)

    def output(self, name: str, stream: str = "stdout", follow: bool = False, offset: int = 0) -> Iterator[bytes]:
        """Yield what the job has written; with `follow` also what it writes until it has ended."""
        query = {"stream": stream, "follow": follow, "offset": offset}
        return self._connection.stream(_of(name, "output"), query)

    def nodes(self) -> list[View]:
        """Return every node with the jobs that run there."""
        return list(self.nodes_and_windows()["nodes"])

    def nodes_and_windows(self) -> View:
        """Return every node, and the windows in which nodes are closed."""
        return self._ask("GET", "/nodes")

    def reserve(self, wish: View) -> View:
        """Close nodes to new jobs for a time, under a name; operators."""
        return self._ask("POST", "/windows", wish)

    def unreserve(self, name: str) -> View:
        """Drop a window; operators."""
        return self._ask("DELETE", f"/windows/{quoted(name)}")

    def act_on_node(self, node: int | str, action: str) -> View:
        """Drain or resume a node, by its number or its name."""
        return self._ask("POST", f"/nodes/{quoted(str(node))}/{action}")

    def reload(self, folder: str, tables: str) -> View:
        """Let a controller on top of a resource manager go on under another site file; return what has changed."""
        return self._ask("POST", "/reload", {"folder": folder, "tables": tables})

    def coscheduling(self, job: str = "") -> View:
        """Return how jobs with mates in other domains are treated, or one of them."""
        return self._ask("GET", "/coscheduling", query={"job": job or None})

    def set_coscheduling(self, changes: View, job: str = "") -> View:
        """Change how jobs with mates are treated, or one of them; operators."""
        return self._ask("POST", "/coscheduling", changes | ({"job": job} if job else {}))

    def share_profile(self, program: str, user: str) -> View:
        """Make the profile from a user's runs of a program the shared profile of all users."""
        return self._ask("POST", "/profiles/share", {"program": program, "user": user})

    def profiles(self) -> View:
        """Return the controller's profile store with the profiles in it that the caller may see."""
        return self._ask("GET", "/profiles")

    def co_runs(self) -> View:
        """Return all runs beside others in the controller's profile store that the caller may see."""
        return self._ask("GET", "/co-runs")

    def profile_history(self, program: str) -> View:
        """Return every measurement of a program in the controller's profile store."""
        return self._ask("GET", f"/profiles/{quoted(program)}/history")

    def profile_neighbours(self, program: str, owner: str) -> View:
        """Return what runs beside others taught of an owner's program."""
        return self._ask("GET", f"/profiles/{quoted(program)}/neighbours", query={"owner": owner})

    def forget_profile(self, program: str, owner: str, since: float | None) -> View:
        """Forget an owner's profile of a program, or what was measured from an instant on."""
        return self._ask("POST", "/profiles/forget", {"program": program, "owner": owner, "since": since})

    def accounting(self, since: float | None, until: float | None, user: str, form: str) -> str:
        """Return the accounting records in that form: json, csv or sacct."""
        query = {"since": since, "until": until, "user": user or None, "format": form}
        return self._connection.text("/accounting", query)

    def expected(self) -> View:
        """Return when the waiting jobs start, if every job takes its requested time."""
        return self._ask("GET", "/expected")

    def slowdowns(self) -> View:
        """Return the expected and the measured slowdown of jobs by their neighbours."""
        return self._ask("GET", "/slowdowns")

    def page_link(self) -> View:
        """Return a link to the page that opens once, as the caller; over the socket only."""
        return self._ask("POST", "/page/link", {})

    def audit(self, most: int) -> View:
        """Return the latest entries of the audit log."""
        return self._ask("GET", "/audit", None, {"limit": most})

    def prune(self, dry_run: bool) -> View:
        """Remove what is past its retention time, or report what would be removed; without a timeout."""
        query = {"dry_run": dry_run}
        return dict(self._connection.ask("POST", "/prune", None, query, patience_s=PRUNE_S)[1])

    def tokens(self) -> View:
        """Return the stored record of every token."""
        return self._ask("GET", "/tokens")

    def add_token(self, wish: View) -> View:
        """Create a token; the answer holds the token itself, which is shown only once."""
        return self._ask("POST", "/tokens", wish)

    def rotate_token(self, name: str, overlap_s: float) -> View:
        """Create a token like this one; the old one stays valid for `overlap_s`."""
        return self._ask("POST", f"/tokens/{quoted(name)}/rotate", {"overlap_s": overlap_s})

    def revoke_token(self, name: str) -> View:
        """Make a token invalid."""
        return self._ask("DELETE", f"/tokens/{quoted(name)}")

    def _ask(self, method: str, path: str, body: Any = None, query: View | None = None) -> View:
        return dict(self._connection.ask(method, path, body, query)[1])


def connect(server: str | None) -> Client:
    """Return the scheduler at that address, of COHABIT_SERVER or of the default place."""
    address = find_server(server)
    return Client(Connection(address, find_token() if address.url else ""))


def _of(name: str, what: str = "") -> str:
    return f"/jobs/{quoted(name)}" + (f"/{what}" if what else "")
