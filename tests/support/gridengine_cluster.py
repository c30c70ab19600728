"""A real Grid Engine of Debian in a folder of its own: a master and some execution hosts, all on this machine.

Each cluster has a network, host names, a hosts file and process numbers of its own (namespaces), so several live side
by side and a default installation is not touched. Everything it ever started, jobs included, ends with one process,
and that one ends with the process that started it: nothing is left behind. Where something is missing, `missing()` says
what to install. Commands from outside go through the scripts in `bin`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path("/usr/lib/gridengine")
RESOURCES = Path("/usr/share/gridengine")
ADMIN = "sgeadmin"
COMMANDS = ("qsub", "qstat", "qhost", "qalter", "qhold", "qrls", "qdel", "qmod", "qacct", "qconf", "qselect", "qping")
START_S = 90.0
GROUPS, GROUPS_EACH = 30000, 100  # group ids by which a host knows the processes of its jobs
MASTER, NETWORK = "gemaster", "10.77.0"
QMASTER_PORT, EXECD_PORT = 6444, 6445  # in a network of its own: no conflicts
BOOTSTRAP = """admin_user {admin}
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {root}/default/common;{root}/spool
binary_path {programs}
qmaster_spool_dir {root}/spool
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
CHANGED = {  # of the default configuration
    "min_uid": "0", "min_gid": "0", "load_report_time": "00:00:05", "max_unheard": "00:00:30",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
    "jsv_allowed_mod": "ac,h,i,e,o,j,M,N,p,w,q,l,q_hard,l_hard", "mailer": "/bin/true",
}  # fmt: skip
SCHEDULER = {
    "schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1", "job_load_adjustments": "NONE",
    "load_adjustment_decay_time": "0:0:0", "queue_sort_method": "seqno",
}  # fmt: skip
ENVIRONMENT_PE = """pe_name {name}
slots 9999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
RULES = {"mpi": "$round_robin", "smp": "$pe_slots", "fill": "$fill_up"}
QUEUE = {
    "qname": "all.q", "hostlist": "@allhosts", "pe_list": "mpi smp fill", "ckpt_list": "cohabit", "rerun": "TRUE",
    "load_thresholds": "NONE", "shell_start_mode": "unix_behavior",
}  # fmt: skip
CHECKPOINTING = """ckpt_name cohabit
interface userdefined
ckpt_command none
migr_command none
restart_command none
clean_command none
ckpt_dir /tmp
signal none
when sx
"""


def missing() -> str:
    """Return what prevents a cluster here; empty: nothing."""
    absent = [name for name in ("sge_qmaster", "sge_execd", "qsub") if not (PROGRAMS / name).exists()]
    if absent:
        packages = "gridengine-master gridengine-exec gridengine-client"
        return f"{absent[0]} is not installed (Debian: apt-get install {packages})"
    absent = [name for name in ("unshare", "nsenter", "setpriv", "ip") if shutil.which(name) is None]
    if absent:
        return f"{absent[0]} is not installed (Debian: apt-get install util-linux iproute2)"
    if os.geteuid() != 0:
        return "a Grid Engine cluster can be started by root only"
    if not any(one.pw_name == ADMIN for one in pwd.getpwall()):
        return f"there is no user {ADMIN}, which Debian's gridengine packages make"
    tried = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "ip", "link", "add", "v0", "type", "veth"]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        return "no networks of one's own (namespaces, veth) can be made here"
    return ""


@dataclass
class GridEngineCluster:
    """Daemons that run, and the folder of commands that lead to them."""

    folder: Path
    hosts: tuple[str, ...]
    slots: int
    namespaces: dict[str, int] = field(default_factory=dict)  # host -> a process that is in its namespaces
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """SGE_ROOT."""
        return self.folder / "root"

    @property
    def bin(self) -> Path:
        """The folder of commands for this cluster."""
        return self.folder / "bin"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for Grid Engine's own programs in the namespaces of this cluster."""
        return os.environ | {
            "SGE_ROOT": str(self.root),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(QMASTER_PORT),
            "SGE_EXECD_PORT": str(EXECD_PORT),
            "SGE_ND": "true",
        }

    def run(self, *words: str, check: bool = True, user: str = "") -> str:
        """Run one of Grid Engine's commands, as an ordinary user if one is named; return its output."""
        inside = self._inside(MASTER, *(_as_user(user) if user else ()), str(PROGRAMS / words[0]), *words[1:])
        done = subprocess.run(
            inside, env=self.environment, capture_output=True, text=True, timeout=60, check=False, cwd="/"
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
        return done.stdout + (done.stderr if not check else "")

    def start(self, name: str) -> None:
        """Start `qmaster`, or the execd of a host by the host's name."""
        program, host = ("sge_qmaster", MASTER) if name == "qmaster" else ("sge_execd", name)
        self.start_on(host, name, str(PROGRAMS / program), log=self.folder / "daemons.log", folder=self.folder)

    def start_on(self, host: str, name: str, *words: str, log: Path, folder: Path) -> None:
        """Start any program in a host's namespaces, to be signalled and stopped by this name like a daemon."""
        with log.open("ab") as said:
            self.daemons[name] = subprocess.Popen(
                self._inside(host, "--wdns=" + str(folder), *words),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=self.environment,
            )

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signal a daemon; nsenter, which brought it into its namespaces, stops and continues with it."""
        for process in _descendants(self.daemons[name].pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)
        if number == signal.SIGCONT:
            self.daemons[name].send_signal(number)

    def stop(self, *names: str, hard: bool = False) -> None:
        """End daemons by their process ids; returns when they are gone. Jobs of a host go on."""
        for name in names:
            if name in self.daemons:
                self.signal(name, signal.SIGCONT)
                self.signal(name, signal.SIGKILL if hard else signal.SIGTERM)
        for name in names:
            found = self.daemons.pop(name, None)
            if found is None:
                continue
            try:
                found.wait(20)
            except subprocess.TimeoutExpired:
                for process in _descendants(found.pid):
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                found.wait()

    def await_master(self) -> None:
        """Wait until qmaster answers."""
        self._until(lambda: ADMIN in self.run("qconf", "-sm", check=False), "qmaster does not answer")

    def await_hosts(self) -> None:
        """Wait until every host reports its load and offers its slots."""

        def ready() -> bool:
            said = self.run("qstat", "-f", check=False)
            lines = [line.split() for line in said.splitlines() if line.startswith("all.q@")]
            return len(lines) == len(self.hosts) and all(len(line) == 5 and line[3] != "-NA-" for line in lines)

        self._until(ready, "hosts do not come up")

    def _until(self, condition: object, what: str) -> None:
        assert callable(condition)
        until_s = time.monotonic() + START_S
        while not condition():
            ended = [name for name, one in self.daemons.items() if one.poll() is not None]
            if ended or time.monotonic() > until_s:
                log = (self.folder / "daemons.log").read_text(errors="replace")[-2000:]
                raise AssertionError(
                    f"{ended[0] + ' ended' if ended else what}: {log} {self.run('qhost', check=False)}"
                )
            time.sleep(0.2)

    def _inside(self, host: str, *words: str) -> list[str]:
        return ["nsenter", "-t", str(self.namespaces[host]), "-m", "-u", "-n", "-p", *words]


@contextmanager
def running_gridengine(
    folder: Path, hosts: int = 2, slots: int = 4, exclusive: bool = True, jsv: str = ""
) -> Iterator[GridEngineCluster]:
    """A cluster of so many execution hosts, until the block ends; queue all.q, parallel environments mpi, smp and fill.

    `exclusive`: with a complex by which jobs get hosts to themselves. `jsv`: the text of a job submission verifier."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    cluster = GridEngineCluster(folder, tuple(f"ge{number}" for number in range(hosts)), slots)
    _write_files(cluster, jsv)
    holders: list[subprocess.Popen[bytes]] = []
    try:
        holders.append(
            _hold(cluster, MASTER, ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc"])
        )
        for number, name in enumerate(cluster.hosts):
            holders.append(_hold(cluster, name, [*cluster._inside(MASTER), "unshare", "--net", "--uts"]))
            _connect(cluster, number, name)
        _write_commands(cluster)
        _initialise(cluster)
        cluster.start("qmaster")
        cluster.await_master()
        _configure(cluster, exclusive)
        for name in cluster.hosts:
            cluster.start(name)
        cluster.await_hosts()
        yield cluster
    finally:
        for one in holders:  # with the first one everything in its process namespace ends
            if one.stdin is not None:
                one.stdin.close()
        for process in [*_descendants(holders[0].pid)[:1]] if holders else []:
            with suppress(ProcessLookupError):  # it has already ended
                os.kill(process, signal.SIGKILL)
        for one in cluster.daemons.values():
            one.send_signal(signal.SIGCONT)  # a process stopped with its daemon could not reap it
        for one in [*cluster.daemons.values(), *holders]:
            one.wait(30)


def _hold(cluster: GridEngineCluster, name: str, words: list[str]) -> subprocess.Popen[bytes]:
    """A process that keeps namespaces alive until its standard input ends, which it does when this process dies."""
    script = f"hostname {name} && ip link set lo up && "
    if name == MASTER:
        script += f"mount --bind {cluster.folder}/hosts /etc/hosts && ip link add br0 type bridge && "
        script += f"ip addr add {NETWORK}.1/24 dev br0 && ip link set br0 up && "
    script += "echo ready && while read line; do :; done"  # a shell reaps what it inherits as the first process
    holder = subprocess.Popen([*words, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n", f"the namespaces of {name} could not be made"
    inner = [process for process in _descendants(holder.pid) if process != holder.pid]
    cluster.namespaces[name] = inner[0]
    return holder


def _connect(cluster: GridEngineCluster, number: int, name: str) -> None:
    """Connect the host to the network of its cluster."""
    inside, port = cluster._inside(MASTER), f"v{number}"
    pid = subprocess.run(
        ["awk", "/NSpid/ {print $3}", f"/proc/{cluster.namespaces[name]}/status"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for words in (
        [*inside, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid],
        [*inside, "ip", "link", "set", port, "master", "br0", "up"],
        [*cluster._inside(name), "ip", "addr", "add", f"{NETWORK}.{number + 2}/24", "dev", "eth0"],
        [*cluster._inside(name), "ip", "link", "set", "eth0", "up"],
    ):
        subprocess.run(words, check=True, capture_output=True)


def _as_user(name: str) -> list[str]:
    return ["setpriv", f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", "--clear-groups"]


def _write_files(cluster: GridEngineCluster, jsv: str) -> None:
    root, common = cluster.root, cluster.root / "default" / "common"
    common.mkdir(parents=True)
    for name in ("spool", "spool/job_scripts", "execd"):
        (root / name).mkdir()
    for name in ("bin", "lib", "utilbin"):
        (root / name).mkdir()
        arch = subprocess.run([RESOURCES / "util" / "arch"], capture_output=True, text=True, check=True).stdout.strip()
        (root / name / arch).symlink_to(PROGRAMS)
    (root / "util").symlink_to(RESOURCES / "util")
    (common / "bootstrap").write_text(BOOTSTRAP.format(admin=ADMIN, root=root, programs=PROGRAMS))
    (common / "act_qmaster").write_text(f"{MASTER}\n")
    lines = [f"{NETWORK}.1 {MASTER}", *(f"{NETWORK}.{at + 2} {name}" for at, name in enumerate(cluster.hosts))]
    (cluster.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{line}\n" for line in lines))
    if jsv:
        (cluster.folder / "jsv").write_text(jsv, encoding="utf-8")
        (cluster.folder / "jsv").chmod(0o755)
    admin = pwd.getpwnam(ADMIN)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            os.chown(path, admin.pw_uid, admin.pw_gid)


def _write_commands(cluster: GridEngineCluster) -> None:
    """Grid Engine's commands for callers outside the namespaces."""
    cluster.bin.mkdir()
    kept = ("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT")
    settings = " ".join(f"{key}={cluster.environment[key]}" for key in kept)
    for name in COMMANDS:
        inside = " ".join(cluster._inside(MASTER, '--wdns="$PWD"', "env", settings, str(PROGRAMS / name)))
        (cluster.bin / name).write_text(f'#!/bin/sh\nexec {inside} "$@"\n')
        (cluster.bin / name).chmod(0o755)


def _initialise(cluster: GridEngineCluster) -> None:
    """The spool with the defaults of the package, in the settings that fit a test."""
    text = (RESOURCES / "default-configuration").read_text()
    values = dict(line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#"))
    values |= CHANGED | {"execd_spool_dir": str(cluster.root / "execd")}
    if (cluster.folder / "jsv").exists():
        values["jsv_url"] = f"script:{ADMIN}@{cluster.folder}/jsv"
    written = cluster.folder / "configuration"
    written.write_text("".join(f"{key} {value.strip()}\n" for key, value in values.items()))
    spool = f"{cluster.root}/default/common;{cluster.root}/spool"
    for words in (
        ["spoolinit", "classic", "libspoolc", spool, "init"],
        ["spooldefaults", "configuration", str(written)],
        ["spooldefaults", "complexes", str(RESOURCES / "util/resources/centry")],
        ["spooldefaults", "usersets", str(RESOURCES / "util/resources/usersets")],
        ["spooldefaults", "managers", "root", ADMIN],
    ):
        inside = cluster._inside(MASTER, *_as_user(ADMIN), str(PROGRAMS / words[0]), *words[1:])
        done = subprocess.run(inside, env=cluster.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"


def _configure(cluster: GridEngineCluster, exclusive: bool) -> None:
    """Hosts, the queue and its parallel environments, as an administrator would."""
    work = cluster.folder / "qconf"
    work.mkdir()
    for name in (MASTER, *cluster.hosts):
        cluster.run("qconf", "-ah", name)
        cluster.run("qconf", "-as", name)
    if exclusive:
        text = cluster.run("qconf", "-sc") + "exclusive excl BOOL EXCL YES YES 0 1000\n"
        _qconf(cluster, work, "-Mc", "complexes", text)
    for name in cluster.hosts:
        values = f"slots={cluster.slots}" + (",exclusive=true" if exclusive else "")
        text = f"hostname {name}\nload_scaling NONE\ncomplex_values {values}\nuser_lists NONE\nxuser_lists NONE\n"
        text += "projects NONE\nxprojects NONE\nusage_scaling NONE\nreport_variables NONE\n"
        _qconf(cluster, work, "-Ae", name, text)
        # execd kills whatever has the group it gave a job, and hosts see each other's processes here
        first = GROUPS + GROUPS_EACH * cluster.hosts.index(name)
        _qconf(cluster, work, "-Aconf", name, f"gid_range {first}-{first + GROUPS_EACH - 1}\n")
    _qconf(cluster, work, "-Ahgrp", "allhosts", f"group_name @allhosts\nhostlist {' '.join(cluster.hosts)}\n")
    for name, rule in RULES.items():
        _qconf(cluster, work, "-Ap", name, ENVIRONMENT_PE.format(name=name, rule=rule))
    template = cluster.run("qconf", "-sq")
    _qconf(cluster, work, "-Ackpt", "cohabit", CHECKPOINTING)
    queue = QUEUE | {"slots": str(cluster.slots)}
    _qconf(cluster, work, "-Aq", "all.q", replaced(template, queue))
    _qconf(cluster, work, "-Msconf", "scheduler", replaced(cluster.run("qconf", "-ssconf"), SCHEDULER))


def replaced(text: str, values: dict[str, str]) -> str:
    """Settings as `qconf` shows them, with other values."""
    lines = [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return "".join(f"{key} {values.get(key, rest[0] if rest else 'NONE')}\n" for key, *rest in lines)


def _qconf(cluster: GridEngineCluster, work: Path, option: str, name: str, text: str) -> None:
    (work / name).write_text(text)
    cluster.run("qconf", option, str(work / name))


def _descendants(pid: int) -> list[int]:
    """Return its descendants; itself if it has none."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        found += [int(child) for child in children]
        waiting += [int(child) for child in children]
    return found or [pid]
