"""The processes of a framework under Slurm: lines of the batch script that start them by srun, in the layout and with
the variables that they have on one machine (backend/launchers). Pure.

The nodes are known only when the job starts, so the script itself counts: awk spreads the processes over the CPUs that
the job has, as evenly as they hold them, and srun starts them in that layout. It needs nothing of ours on the nodes.
"""

from __future__ import annotations

import shlex

from cohabit.backend.launchers.contract import THREAD_COUNTS, Request, thread_environment
from cohabit.backend.launchers.pytorch import TORCHRUN, torchrun
from cohabit.backend.launchers.tensorflow import INTER, INTRA
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.submitting import AS_IT_IS, Start
from cohabit.model.errors import InputError
from cohabit.model.job import Job

BY_MPIRUN = ""  # whose mpirun the job finds on its first node: of Open MPI (PMIx) or MPICH (PMI-2)
MPI, REPLICATED, TENSORFLOW, PYTORCH = "mpi", "replicated", "tensorflow", "pytorch"
FRAMEWORKS = ("plain", MPI, REPLICATED, TENSORFLOW, PYTORCH)
FIRST_PORT, PORTS, STEP = 20_000, 20_000, 97  # of TensorFlow and PyTorch: counted from the job's number

_COUNT = r"""
BEGIN {
  for (i = 1; i <= split(cpus, part, ","); i++) {
    times = match(part[i], /x[0-9]+/) ? substr(part[i], RSTART + 1, RLENGTH - 1) + 0 : 1
    while (times-- > 0) slots[++nodes] = part[i] + 0
  }
}
{
  match($0, /NodeName=[^ ]+/); name[NR] = substr($0, RSTART + 9, RLENGTH - 9)
  match($0, /NodeAddr=[^ ]+/); address[NR] = RSTART ? substr($0, RSTART + 9, RLENGTH - 9) : name[NR]
}
END {
  if (NR != nodes || !nodes) { print "echo \"cohabit: Slurm does not say which nodes the job has\" >&2; exit 1"; exit }
  least = slots[1]
  for (k = 1; k <= nodes; k++) if (slots[k] < least) least = slots[k]
  for (k = 1; k <= nodes; k++) { room[k] = threads ? int(slots[k] / threads) : 1; all += room[k] }
  left = want = !threads ? nodes : cores ? int(cores / threads) : all
  if (want > all || want < 1) {
    printf "echo \"cohabit: %d processes of %d threads, but its cores hold %d\" >&2; exit 1\n", want, threads, all; exit
  }
  while (left > 0) {
    open = served = 0; rest = left
    for (k = 1; k <= nodes; k++) open += many[k] < room[k]
    each = int(left / open); if (each < 1) each = 1
    for (k = 1; k <= nodes && served < rest; k++) if (many[k] < room[k]) {
      served++; more = room[k] - many[k]
      if (each < more) more = each
      if (left < more) more = left
      many[k] += more; left -= more
    }
  }
  for (k = 1; k <= nodes; k++) {
    names = names "," name[k]; hosts = hosts "," address[k]; has = has "," slots[k]
    if (many[k]) { starters++; one_each = one_each "," name[k]; counts = counts " " many[k] }
    for (i = 1; i <= many[k]; i++) {
      layout = layout "," name[k]; workers = workers ", \"" address[k] ":" first + placed++ "\""
    }
  }
  q = "'"
  print "export COHABIT_NODES=" q substr(names, 2) q " COHABIT_HOSTS=" q substr(hosts, 2) q
  print "export COHABIT_CORES=" q substr(has, 2) q " COHABIT_NODE_COUNT=" nodes " COHABIT_PROCESSES=" want
  print "cohabit_layout=" q substr(layout, 2) q " cohabit_starters=" starters
  print "cohabit_one_each=" q substr(one_each, 2) q " cohabit_counts=" q substr(counts, 2) q
  print "cohabit_threads=" (threads ? threads : least) " cohabit_least=" least
  print "cohabit_workers=" q substr(workers, 3) q
}
""".replace("'", "'\\''")

_LINES = """PATH=$PATH:{folder}
cohabit_first=$(({first} + ${{SLURM_JOB_ID:-0}} * {step} % {ports}))
cohabit_least=
eval "$(scontrol --oneliner show node "$SLURM_JOB_NODELIST" \\
  | awk -v cpus="$SLURM_JOB_CPUS_PER_NODE" -v cores={cores} -v threads={threads} -v first=$cohabit_first '{count}')"
[ -n "$cohabit_least" ] || {{ echo "cohabit: scontrol or awk failed on $SLURMD_NODENAME" >&2; exit 1; }}
export COHABIT_JOB={job} COHABIT_FRAMEWORK={framework} COHABIT_ATTEMPT=$((${{SLURM_RESTART_COUNT:-0}} + 1))
export COHABIT_SCALE={scale}
"""
_RANK = "export COHABIT_RANK=$SLURM_PROCID COHABIT_NODE=$SLURM_NODEID; "
_BECOME = 'exec "$@"'
_CONFIG = r"""TF_CONFIG="{\"cluster\": {\"worker\": [$COHABIT_WORKERS]}, \"task\": {\"type\": \"worker\", \"index\": \
$SLURM_PROCID}}"; unset COHABIT_WORKERS; export TF_CONFIG; """
_OF_TORCHRUN = {  # its options, and the variables of shell that hold their values
    "--nnodes": "COHABIT_STARTERS", "--node-rank": "SLURM_NODEID", "--nproc-per-node": "each", "--master-addr": "host",
    "--master-port": "COHABIT_PORT",
}  # fmt: skip
_MEET = """export COHABIT_NODE=$SLURM_NODEID
set -- $COHABIT_COUNTS; shift $SLURM_NODEID; each=$1; host=${COHABIT_HOSTS%%,*}
"""
_KIND = {
    BY_MPIRUN: """case $(mpirun --version 2>&1) in
  *"(Open MPI)"*) cohabit_mpi=pmix;;
  *HYDRA*) cohabit_mpi=pmi2;;
  *) echo "cohabit: there is no mpirun of Open MPI or MPICH in PATH on $SLURMD_NODENAME: install one, set PATH," \\
    "or [slurm] mpi in the site file" >&2; exit 1;;
esac
"""
}


def tasks_of(job: Job, launch: Launch) -> tuple[int, int]:
    """Return tasks and CPUs of each to ask Slurm for; a process is not split between nodes."""
    if launch.framework == "plain":
        return job.processes, launch.threads
    threads = max(launch.threads, 1)
    if launch.processes % threads:
        what = f"{launch.processes} cores, which {threads} threads per process do not divide"
        raise InputError(what, "threads", "ask for a multiple, or for other threads")
    return max(job.processes // threads, 1), threads


def start_of(job: Job, launch: Launch, folder: str, node_cpus: int, mpi: str) -> Start:
    """Return how the job's framework is started. `folder`: where srun is if PATH has none; `node_cpus`: of a node;
    `mpi`: how srun is to start ranks, or BY_MPIRUN."""
    framework = launch.framework
    if framework == "plain":
        return AS_IT_IS
    whole_tasks = framework in (MPI, REPLICATED)
    threads = launch.threads or (1 if whole_tasks else 0)
    number = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" if job.array_count else "$SLURM_JOB_ID"
    packed = 0 if job.nodes else -(-job.processes // max(node_cpus, 1))
    lines = _LINES.format(
        folder=shlex.quote(folder),
        first=FIRST_PORT,
        step=STEP,
        ports=PORTS,
        cores=launch.processes,
        threads=threads,
        count=_COUNT,
        job=f'"{number}"' if job.mates is None else shlex.quote(job.mates.name),
        framework=framework,
        scale=f"$((COHABIT_NODE_COUNT / {packed} > 0 ? COHABIT_NODE_COUNT / {packed} : 1))" if packed else 1,
    )
    lines += _thread_lines(launch, framework)
    if framework == MPI:
        return _ranks(lines + _KIND.get(mpi, f"cohabit_mpi={shlex.quote(mpi)}\n"), '"$cohabit_mpi"', True, launch)
    if framework == REPLICATED:
        return _ranks(lines, "none", False, launch)
    return _tensorflow(lines, launch) if framework == TENSORFLOW else _pytorch(lines, launch)


def _thread_lines(launch: Launch, framework: str) -> str:
    """Set counts of threads; what the owner set stays, unless threads were asked for."""
    names = (*THREAD_COUNTS, INTRA) if framework == TENSORFLOW else THREAD_COUNTS
    request = Request("", launch.command, "", threads=launch.threads, environment=launch.environment)
    text = "".join(f"export {name}=$cohabit_threads\n" for name in thread_environment(request, 1, names))
    if framework == TENSORFLOW and INTER not in launch.environment:
        text += f"export {INTER}=$((cohabit_threads < 2 ? cohabit_threads : 2))\n"
    return text


def _srun(mpi: str, together: bool, of_each_node: bool = False) -> str:
    """Return the call; `together`: if one process fails, the others are stopped."""
    layout, tasks, cpus = "$cohabit_layout", "$COHABIT_PROCESSES", "$cohabit_threads"
    if of_each_node:
        layout, tasks, cpus = "$cohabit_one_each", "$cohabit_starters", "$cohabit_least"
    ends = "--kill-on-bad-exit=1" if together else "--kill-on-bad-exit=0 --wait=0"
    return (
        f'srun --export=ALL --mpi={mpi} --distribution=arbitrary --nodelist="{layout}" --ntasks={tasks}'
        f" --cpus-per-task={cpus} {ends} "
    )


def _ranks(lines: str, mpi: str, together: bool, launch: Launch) -> Start:
    """One task for every process."""
    return Start(lines, f"{_srun(mpi, together)}sh -c {shlex.quote(_RANK + _BECOME)} sh ")


def _alone(command: tuple[str, ...]) -> str:
    """Return what becomes of a single process: the command itself."""
    return f'[ "$COHABIT_PROCESSES" -gt 1 ] || exec env COHABIT_RANK=0 COHABIT_NODE=0 {shlex.join(command)}\n'


def _tensorflow(lines: str, launch: Launch) -> Start:
    """One worker for every process, which finds the others in TF_CONFIG."""
    lines += _alone(launch.command) + "export COHABIT_WORKERS=$cohabit_workers\n"
    return Start(lines, f"{_srun('none', True)}sh -c {shlex.quote(_RANK + _CONFIG + _BECOME)} sh ")


def _pytorch(lines: str, launch: Launch) -> Start:
    """One torchrun for every node; its processes meet on the first node."""
    marks = {name: f"@cohabit:{name}@" for name in _OF_TORCHRUN.values()}
    options = tuple(f"{option}={marks[name]}" for option, name in _OF_TORCHRUN.items())
    text = shlex.join(torchrun(launch.command, options))
    for name, mark in marks.items():
        text = text.replace(mark, f"${name}")
    if not TORCHRUN.match(launch.command[0]):
        lines += _alone(launch.command)
    lines += "export COHABIT_PORT=$cohabit_first COHABIT_STARTERS=$cohabit_starters\n"
    lines += 'export COHABIT_COUNTS="$cohabit_counts"\n'
    return Start(lines, f"{_srun('none', True, True)}sh -c {shlex.quote(f'{_MEET}exec {text}')}", ())
