"""MPI programs under Open MPI or MPICH: a host file, so many ranks per node, every rank bound to cores of its own.

The ranks bind themselves with taskset just before they become the program: the launchers of the two MPIs count cores
differently from version to version, the operating system's numbers are always the same. For the same reason jobs that
share a machine never share a core, which they do when each mpirun binds from the first core on. Nothing is
oversubscribed, and nothing runs as root, unless that was asked for or is the case; both are reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.backend.launchers.contract import (
    Placement,
    Prepared,
    Process,
    Request,
    Site,
    checked,
    cores_text,
    job_environment,
    processes_of,
    thread_environment,
)
from cohabit.model.errors import InputError

HOSTS, RANKS = "hosts", "ranks.sh"
LONGEST_ARGUMENT = 100_000  # the kernel's limit is 128 KiB


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return mpirun with a host file, and a few lines of shell around the program."""
    if site.mpi not in ("openmpi", "mpich"):
        raise InputError("there is no mpirun of Open MPI or MPICH in PATH", "mpi", "install one, or set PATH")
    placement = checked(request, placement)
    ranks = processes_of(request, placement, request.threads or 1)
    environment = job_environment(request, placement, "mpi", len(ranks))
    environment |= thread_environment(request, request.threads or 1)
    script = _rank_script(ranks)
    files = {HOSTS: _host_file(placement, ranks, site)}
    if len(script) <= LONGEST_ARGUMENT:
        program = ("sh", "-c", script, "sh", *request.command)  # needs no folder shared between nodes
    else:
        files[RANKS] = script
        program = ("sh", f"{request.folder}/{RANKS}", *request.command)
    hosts = f"{request.folder}/{HOSTS}"
    local = all(node.host in site.here for node in placement.nodes)
    notes = []
    if request.oversubscribe and len(ranks) * (request.threads or 1) > sum(node.slots for node in placement.nodes):
        notes.append("there are more ranks than cores, as asked")
    if site.mpi == "mpich":
        how = ("-launcher", "fork") if local else ()
        return Prepared(
            (site.mpirun, *how, "-f", hosts, "-n", str(len(ranks)), "-bind-to", "none", *program),
            environment,
            files,
            tuple(notes),
        )
    options = ["--hostfile", hosts, "-n", str(len(ranks)), "--map-by", "slot", "--bind-to", "none"]
    if site.root:
        options.insert(0, "--allow-run-as-root")
        notes.append("Open MPI is told that running as root is meant")
    if request.oversubscribe:
        options.append("--oversubscribe")
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"  # waiting ranks would otherwise block their core for others
    if local:
        environment |= {"OMPI_MCA_plm": "isolated", "PRTE_MCA_plm": "isolated"}  # do not look for ssh
    else:  # other machines get only the named variables
        for name in sorted({*environment, *request.environment}):
            options += ["-x", name]
    return Prepared((site.mpirun, *options, *program), environment, files, tuple(notes))


def parse_version(text: str) -> tuple[str, str]:
    """Return (openmpi or mpich, version) from what `mpirun --version` prints; ("", "") for any other."""
    for line in text.splitlines():
        words = line.split()
        if "(Open MPI)" in line:
            return "openmpi", words[-1]
        if "HYDRA" in text and words[:1] == ["Version:"]:
            return "mpich", words[1]
    return "", ""


def _host_file(placement: Placement, ranks: Sequence[Process], site: Site) -> str:
    """Return one line per machine: the ranks of all its nodes."""
    counts: dict[str, int] = {}
    for rank in ranks:
        host = placement.nodes[rank.node].host
        counts[host] = counts.get(host, 0) + 1
    form = "{}:{}\n" if site.mpi == "mpich" else "{} slots={}\n"
    return "".join(form.format(host, count) for host, count in counts.items())


def _rank_script(ranks: Sequence[Process]) -> str:
    """Return the script of a rank: find its number, bind itself, become the program."""
    cases = [f"{rank.rank}) COHABIT_NODE={rank.node} cores={cores_text(rank.cores)};;" for rank in ranks]
    return "\n".join(
        [
            "COHABIT_RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}",
            "case $COHABIT_RANK in",
            *cases,
            '*) echo "cohabit: a rank without a number" >&2; exit 1;;',
            "esac",
            "export COHABIT_RANK COHABIT_NODE",
            'exec ${cores:+taskset -c "$cores"} "$@"',
            "",
        ]
    )
