"""`cohabit logs`: the output of a job so far, and from now on."""

import sys
from collections.abc import Iterable
from typing import Annotated

from cohabit.cli.console import echo, note, show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.options import AsJson, OneJob, Server, asking
from cohabit.model.errors import InputError


@verb(
    "logs",
    "What a job has written.",
    "cohabit logs 12",
    "cohabit logs 12 --follow",
    "cohabit logs 12 --stderr --lines 20",
)
def logs(
    job: OneJob,
    follow: Annotated[bool, Option("--follow", "-f", help="Continue until the job ends.")] = False,
    stderr: Annotated[bool, Option("--stderr", help="The error output, if it has its own file.")] = False,
    lines: Annotated[int | None, Option("--lines", "-n", metavar="N", help="Only the last N lines.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job has written. With --follow also what it writes until it is over (Ctrl-C leaves it alone)."""
    if lines is not None and (follow or lines < 1):
        raise InputError(f"--lines {lines} is not possible", "", "give 1 or more, and no --follow with it")
    stream = "stderr" if stderr else "stdout"
    with asking(server) as client:
        pieces = client.output(job, stream, follow)
        try:
            if as_json or lines is not None:
                text = b"".join(pieces).decode(errors="replace")
                kept = "".join(text.splitlines(keepends=True)[-lines:]) if lines is not None else text
                if as_json:
                    show_json({"job": job, "stream": stream, "text": kept})
                else:
                    echo(kept, end="")
            else:
                _pass_on(pieces)
        except KeyboardInterrupt:
            note("stopped following; the job continues")
            sys.exit(130)


def _pass_on(pieces: Iterable[bytes]) -> None:
    """Write bytes as they arrive; their encoding is left to the reader."""
    out = getattr(sys.stdout, "buffer", None)
    for piece in pieces:
        if out is not None:
            out.write(piece)
        else:
            sys.stdout.write(piece.decode(errors="replace"))
        sys.stdout.flush()
