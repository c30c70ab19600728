"""`cohabit wait`: wait until jobs have ended; the exit status says how they ended."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import echo, note, show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import outcome, ran_s, span
from cohabit.cli.options import AsJson, Jobs, Server, asking, duration_s

if TYPE_CHECKING:
    from cohabit.app.client.client import Client


@verb("wait", "Wait until jobs are over.", "cohabit wait 12 13", "cohabit wait 12 --timeout 10m && ./next-step")
def wait(
    jobs: Jobs,
    timeout: Annotated[str | None, Option(metavar="T", help="Give up after this: 90s, 10m, 2h.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Wait until all of these jobs are over: status 0 if every one is done, 1 if one failed or time ran out."""
    patience_s = None if timeout is None else duration_s("--timeout", timeout)
    with asking(server) as client:
        wait_for(client, jobs, patience_s, as_json)


def wait_for(client: "Client", names: list[str], patience_s: float | None, as_json: bool) -> None:
    """Wait, print how each ended, and exit with the worst status. Ctrl-C stops the waiting, not the jobs."""
    from cohabit.app.client.client import OVER

    until = None if patience_s is None else time.monotonic() + patience_s
    views: list[dict[str, Any]] = []
    try:
        for name in names:
            view = client.wait(name, until)
            views.append(view)
            if not as_json and view["state"] in OVER:
                ran = ran_s(view, time.time())
                echo(f"job {view['job']}: {outcome(view)}" + (f" after {span(ran)}" if ran is not None else ""))
    except KeyboardInterrupt:
        note("stopped waiting; the jobs continue")
        sys.exit(130)
    waiting = [view["job"] for view in views if view["state"] not in OVER]
    if as_json:
        show_json({"jobs": views, "timed_out": waiting})
    if waiting:
        note(f"not ended after {span(patience_s)}: {', '.join(waiting)}")
    if any(view["state"] != "done" for view in views):
        raise SystemExit(1)
