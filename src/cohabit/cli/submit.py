"""`cohabit submit`: submit a command or a script, with its requirements."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import echo, note, show_json
from cohabit.cli.declaring import Argument, Option, add_verb
from cohabit.cli.job_words import counted, moment, nodes_of, span
from cohabit.cli.options import AsJson, Server, asking, check_not_both, duration_s
from cohabit.cli.wait import wait_for
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    import typer

    from cohabit.app.client.client import Client

EXAMPLES = (
    "cohabit submit -- sleep 60",
    "cohabit submit -n 4 --limit 2h --mem 2G -- ./solve input.dat",
    "cohabit submit --array 1-10%2 -o part-%a.out -- sh -c './solve $COHABIT_ARRAY_MEMBER'",
    "cohabit submit --after 12,13 --wait -- ./collect",
    "cohabit submit --framework mpi -n 8 -- ./ring",
    "cohabit submit --dry-run -n 2 -- ./solve",
    "cohabit submit job.sh          (a script; lines `#COHABIT --limit 1h` at its top are options)",
)
OPTIONS = {  # fields that the server may refuse
    "processes": "-n", "nodes": "--nodes", "limit_s": "--limit", "memory_mb": "--mem", "program": "--program",
    "name": "--name", "alpha": "--alpha", "array": "--array", "partition": "--partition", "account": "--account",
    "qos": "--qos", "workload_type": "--workload-type", "skip_threshold": "--skip-threshold", "threads": "--threads",
    "stdout": "--output", "stderr": "--error",
}  # fmt: skip


def register(app: "typer.Typer") -> None:
    """Add the verb."""
    from cohabit.cli.full_parser import SubmitCommand

    settings = {"allow_interspersed_args": False}
    short = "Run a command when there is room for it."
    add_verb(app, submit, "submit", short, *EXAMPLES, cls=SubmitCommand, context_settings=settings)


def submit(
    command: Annotated[list[str], Argument("-- COMMAND...", "What to run, or a script.", command=True)],
    processes: Annotated[int, Option("-n", "--processes", metavar="P", help="Number of cores.")] = 1,
    nodes: Annotated[int, Option(metavar="N", help="Whole nodes instead of cores.")] = 0,
    limit: Annotated[str, Option(metavar="T", help="Killed after this: 90s, 15m, 2h, 1-00:00:00.")] = "1h",
    mem: Annotated[str, Option(metavar="MB", help="Memory for each process: 512, or 4G.")] = "0",
    program: Annotated[str, Option(metavar="NAME", help="Program name, under which profiles are learned.")] = "",
    name: Annotated[str | None, Option(metavar="NAME", help="Name of the job instead of a number.")] = None,
    alpha: Annotated[float, Option(metavar="A", help="Share of its speed alone to keep beside others.")] = 0.0,
    exclusive: Annotated[bool, Option("--exclusive", help="Nodes without other jobs.")] = False,
    single_node: Annotated[bool, Option("--single-node", help="The job cannot span nodes.")] = False,
    after: Annotated[str, Option(metavar="JOB,...", help="Start when these have ended well.")] = "",
    after_any: Annotated[bool, Option("--after-any", help="With --after: however they ended.")] = False,
    array: Annotated[str | None, Option(metavar="A-B[%K]", help="A job for every number; K at once.")] = None,
    framework: Annotated[
        str | None, Option(metavar="NAME", help="plain, mpi, spark, tensorflow, pytorch or replicate.")
    ] = None,
    threads: Annotated[int, Option(metavar="T", help="For each process, where the framework has them.")] = 0,
    oversubscribe: Annotated[bool, Option("--oversubscribe", help="More processes than cores.")] = False,
    mate: Annotated[str | None, Option(metavar="DOMAIN:JOB", help="Start together with that job.")] = None,
    group: Annotated[str | None, Option(metavar="NAME@DOMAIN,...", help="Start together in these domains.")] = None,
    workload_type: Annotated[str, Option(metavar="T", help="compute, network or io.")] = "",
    skip_threshold: Annotated[int, Option(metavar="K", help="Maximum delays by the variability gate.")] = -1,
    reprofile: Annotated[bool, Option("--reprofile", help="The program changed: forget its measurements.")] = False,
    partition: Annotated[str, Option(metavar="NAME", help="Partition of nodes it may use.")] = "",
    account: Annotated[str | None, Option("-A", "--account", metavar="NAME", help="Account to charge.")] = None,
    qos: Annotated[int | None, Option(metavar="N", help="Priority; higher goes first.")] = None,
    hold: Annotated[bool, Option("--hold", help="Do not start before `cohabit release`.")] = False,
    no_requeue: Annotated[bool, Option("--no-requeue", help="Never start it again if its node is lost.")] = False,
    output: Annotated[
        str, Option("--output", "-o", metavar="FILE", help="File for output (%j job, %a member); default: for `logs`.")
    ] = "",
    error: Annotated[str, Option("--error", "-e", metavar="FILE", help="File of errors; else with the output.")] = "",
    chdir: Annotated[str | None, Option(metavar="DIR", help="Working folder; default: this one.")] = None,
    export: Annotated[
        str | None, Option(metavar="NAME,...|ALL", help="More variables: ALL, NAME or NAME=VALUE.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show when and where it would start.")] = False,
    wait: Annotated[bool, Option("--wait", help="Wait for its end; exit status 1 unless it ended well.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job. It is safe when this returns: it runs even if the scheduler is restarted meanwhile."""
    from cohabit.app.client import submission as making

    document: dict[str, Any] = _what_runs(command, framework, chdir, output, error) | {
        "environment": making.environment(export),
        "processes": processes,
        "nodes": nodes,
        "threads": threads,
        "limit_s": duration_s("--limit", limit),
        "memory_mb": making.memory_mb(mem),
        "alpha": alpha,
        "exclusive": exclusive,
        "single_node": single_node,
        "after": [one.strip() for one in after.split(",") if one.strip()],
        "after_any": after_any,
        "hold": hold,
        "requeue": not no_requeue,
        "partition": partition,
        "workload_type": workload_type,
        "skip_threshold": skip_threshold,
        "reprofile": reprofile,
        "oversubscribe": oversubscribe,
    }
    said = {"name": name, "account": account, "qos": qos, "program": program or None}
    said["array"] = None if array is None else making.check_array(array)
    document |= {key: value for key, value in said.items() if value is not None}
    check_not_both("--wait", "--dry-run", wait and dry_run)
    check_not_both("--mate", "--group", mate and group)
    with asking(server) as client:
        _check_there(client, document)
        if mate or group:
            _join(document, client.ping()["domain"], mate, group)
        with _in_our_words():
            taken = client.submit(document, dry_run)
        if dry_run:
            _foresee(taken, as_json)
        else:
            _say(client, taken, array, wait, as_json)


def script_lines(command: list[str]) -> list[list[str]]:
    """Return the options in a submitted script, line by line; they come before those typed, so that the typed win."""
    from cohabit.app.client.submission import is_script, script_options

    path = is_script(command[0]) if command else None
    return [] if path is None else [words for _, words in script_options(path)]


def _check_there(client: "Client", document: dict[str, Any]) -> None:
    """Refuse mistyped names: files if the scheduler is on this machine, and jobs to wait for."""
    from cohabit.app.client.submission import check_files

    if client.is_here and not document["after"]:
        check_files(document["command"], document["folder"], document["environment"].get("PATH", os.defpath))
    for name in document["after"]:
        if not client.is_known(name):
            raise InputError(f"there is no job {name}", "--after", "`cohabit queue --all` lists jobs")


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Replace a field in a server's error by the option that fills it."""
    from cohabit.app.client.connection import Refused

    try:
        yield
    except Refused as error:
        if error.where not in OPTIONS:
            raise
        fix = error.fix if error.fix and "docs/" not in error.fix else "see `cohabit submit --help`"
        raise Refused(error.status, error.what, OPTIONS[error.where], fix) from None


def _what_runs(command: list[str], framework: str | None, chdir: str | None, output: str, error: str) -> dict[str, Any]:
    """Return the command with its framework, folder and output files, all resolved from here."""
    from cohabit.app.client.submission import executable_command
    from cohabit.backend.launchers.registry import choose, known_name, program_of
    from cohabit.backend.output_names import literal

    words, program = executable_command(command), program_of(command)
    if framework is None:
        framework, chosen = choose(tuple(words))
        words = list(chosen)
    here = os.getcwd()
    return {
        "command": words,
        "program": program,
        "framework": known_name(framework),
        "folder": here if chdir is None else os.path.abspath(chdir),
        "stdout": os.path.join(literal(here), output) if output else "",
        "stderr": os.path.join(literal(here), error) if error else "",
    }


def _join(document: dict[str, Any], here: str | None, mate: str | None, group: str | None) -> None:
    """Make the job a member of a group that starts together."""
    from cohabit.app.client.submission import group_of, group_with

    if mate:
        document["group"] = group_with(mate, document.get("name"), here)
        return
    assert group is not None
    document["group"] = group_of(group, here)
    called = document["group"]["members"][here]
    if document.setdefault("name", called) != called:
        raise InputError(f"the group calls this job {called}", "--name", f"leave it out, or write {here}:NAME there")


def _foresee(seen: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(seen)
        return
    nodes = seen["nodes"]
    where = f" on {counted(len(nodes), 'node').split()[1]} {nodes_of(seen)}" if nodes else ""
    if seen["start_in_s"] is None:
        echo(f"cannot be said: {seen['why']}" if seen["why"] else "cannot be said")
    elif seen["start_in_s"] < 1:
        echo(f"would start at once{where}")
    else:
        echo(f"would start in {span(seen['start_in_s'])}, at {moment(seen['start_at'])}{where}")
        if seen["why"]:
            echo(f"because {seen['why']}")


def _say(client: "Client", taken: dict[str, Any], array: str | None, wait: bool, as_json: bool) -> None:
    name, members = taken["job"], taken["members"]
    text = f"submitted job {name}" + (f": {counted(members, 'job')}, {array}" if members > 1 else "")
    if wait:
        note(text)
        wait_for(client, [name], None, as_json)
    elif as_json:
        show_json(taken)
    else:
        echo(text)
