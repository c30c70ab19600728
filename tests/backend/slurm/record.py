"""Record what a real Slurm prints, for tests/backend/slurm/recorded:

    PATH=$(scripts/slurm-version trixie):$PATH python -m tests.backend.slurm.record

The version is that of the programs found first; root only. With mariadbd (Debian: mariadb-server-core) the accounting
is recorded, too, unless --no-accounting. Names of hosts and folders are replaced; of the configuration, and of
slurmrestd's description of itself, only what is read here is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from cohabit.backend.slurm import commands, json_output
from cohabit.backend.slurm.json_output import form_number
from cohabit.backend.steered.marks import WHOLE, run_mark
from cohabit.backend.steered.translate import before_of
from tests.backend.slurm.steering import jobs_of, until
from tests.ports import free_port
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

RECORDED = Path(__file__).parent / "recorded"
PARTITIONS = """PartitionName=all Nodes=ALL Default=YES OverSubscribe=NO State=UP
PartitionName=alone Nodes=n[0-1] OverSubscribe=EXCLUSIVE State=UP
Licenses=matlab:4"""
CONFIG = ("AllowSpecResourcesUsage", "ClusterName", "JobRequeue", "MinJobAge", "SelectType", "SelectTypeParameters",
          "SLURM_VERSION")  # fmt: skip
DBD = """AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={mariadb}
StorageUser=root
StoragePass=none
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
{plugins}
"""
SLEEP, FAIL, DIE, ODD = "j.sh", "k.sh", "term.sh", "run me.sh Partition=other"
SCRIPTS = {SLEEP: "sleep 600", FAIL: "exit 3", DIE: "kill -TERM $$", ODD: "true"}
# Every job of a recording, in this order, numbered from 101 on.
JOBS: list[tuple[str, list[str]]] = [
    (SLEEP, ["--hold", "-n16"]),  # 101: will be steered
    (SLEEP, ["--hold", "-n4", "-N2", "--exclusive", "--time=1-02:04:00"]),
    (SLEEP, ["--hold", "-n4", "--array=1,3,5,9%2", "--time=30"]),
    (SLEEP, ["--hold", "-n4", "--dependency=afterok:101"]),
    (SLEEP, ["--hold", "-n40", "--job-name=odd name=UserId=7", "--comment=two words x=1"]),
    (SLEEP, ["--hold", "-n4", "--licenses=matlab:2"]),
    (SLEEP, ["--hold", "-n4", "--constraint=fast"]),
    (SLEEP, ["--hold", "-n4", "-c4", "--ntasks-per-node=2", "-wn1", "-xn3", "--contiguous"]),
    (SLEEP, ["--hold", "-n2", "--partition=alone", "--begin=now+1hour"]),
    (FAIL, ["-n1"]),  # 110
    (SLEEP, ["-n1"]),  # 111: will be cancelled
    (SLEEP, ["--hold", "-n1", ":", "--hold", "-n2"]),  # 112 and 113
    (SLEEP, ["--hold", "-n4", "-c3"]),
    (SLEEP, ["--hold", "-N2"]),
    (SLEEP, ["--hold", "-n2", "--exclusive=user"]),
    (SLEEP, ["--hold", "-n2"]),  # 117: will be given a whole node
    (SLEEP, ["-n1"]),  # 118: will be queued again, held
    (ODD, ["--hold", "-n4", "-N1-1", "--no-requeue", "--mem-per-cpu=4G", "--time=150", "--comment=JobState=RUNNING",
           "--job-name=a Priority=0 UserId=x"]),
    (DIE, ["-n8", "-N2", "--ntasks-per-node=4", "--mem=1500M", "--array=4"]),  # 120
]  # fmt: skip


@contextmanager
def accounting(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """mariadbd, and slurmdbd when it is called for: it needs munge, and slurmctld needs it. The lines of slurm.conf
    that lead there; none where they are not installed."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    mariadbd, slurmdbd = shutil.which("mariadbd", path=path), shutil.which("slurmdbd", path=path)
    if mariadbd is None or slurmdbd is None or "--no-accounting" in sys.argv:
        yield "", lambda: None
        return
    (folder / "db").mkdir(parents=True)
    ports = {"mariadb": free_port(), "dbd": free_port()}
    plugins = Path(slurmdbd).parents[1] / "plugins"
    conf = folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(DBD.format(
        folder=folder, host=socket.gethostname().split(".")[0], **ports,
        plugins=f"PluginDir={plugins}" if plugins.is_dir() else "",
    ))  # fmt: skip
    around = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / "accounting.log").open("wb") as log, ExitStack() as stack:

        def start(port: int, *words: str) -> None:
            process = stack.enter_context(subprocess.Popen(words, stdout=log, stderr=log, env=around))
            stack.callback(process.terminate)
            until(lambda: answers(port), 60, f"{words[0]} does not answer")

        start(
            ports["mariadb"], mariadbd, "--no-defaults", "--user=root", "--skip-grant-tables", f"--datadir={folder}/db",
            f"--socket={folder}/db.socket", f"--pid-file={folder}/db.pid", "--bind-address=127.0.0.1",
            f"--port={ports['mariadb']}",
        )  # fmt: skip
        lines = (f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
                 f"AccountingStoragePort={ports['dbd']}\nAccountingStoragePass={folder}/munge.socket")  # fmt: skip

        def start_slurmdbd() -> None:
            start(ports["dbd"], slurmdbd, "-D")
            subprocess.run(["sacctmgr", "-i", "add", "cluster", "cohabit"], env=around, capture_output=True, check=True)

        yield lines, start_slurmdbd


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def make_jobs(slurm: SlurmCluster) -> None:
    """The same in every version; returns when each has come where it should."""
    for name, line in SCRIPTS.items():
        (slurm.folder / name).write_text(f"#!/bin/sh\n{line}\n")
    for script, options in JOBS:
        out = [] if ":" in options else ["--output=/dev/null"]
        slurm.run("sbatch", *out, *options, str(slurm.folder / script))
    jobs = jobs_of(slurm)
    for name, nodes, cores, made in (("101", ["n0", "n2"], 8, ""), ("117", ["n1"], 1, WHOLE)):
        mark = run_mark(1, before_of(jobs[name])._replace(made=made))
        slurm.run(*commands.place(name, nodes, cores, mark, made))
        slurm.run(*commands.release([name]))
    until(lambda: all(jobs_of(slurm)[name].state == "RUNNING" for name in ("101", "111", "117", "118")), 60,
          lambda: slurm.run("squeue"))  # fmt: skip
    slurm.run("scancel", "111")
    slurm.run(*commands.requeue_held("118"))
    slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=a disk, perhaps")
    slurm.run("scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=a fan")
    ends = {"110": "FAILED", "111": "CANCELLED", "118": "PENDING", "120_4": "FAILED"}
    until(lambda: all(jobs_of(slurm)[name].state == state for name, state in ends.items()), 90,
          lambda: slurm.run("squeue", "--states=all"))  # fmt: skip


def tells_of_jobs_and_nodes(document: dict[str, Any]) -> dict[str, Any]:
    """Of what slurmrestd says of itself: the calls about jobs and nodes, what they may be given, and the names of what
    is told of a job; without descriptions."""
    paths = {path: what for path, what in document["paths"].items()
             if re.match(r"/slurm/v[0-9.]+/(jobs/?|nodes/?|job/submit|job/\{job_id\})$", path)}  # fmt: skip
    kept = {path: {verb: {key: one[key] for key in ("operationId", "requestBody") if key in one}
                   for verb, one in what.items() if isinstance(one, dict)} for path, what in paths.items()}  # fmt: skip
    schemas = document["components"]["schemas"]
    wanted = set(re.findall(r'schemas/([^"]+)"', json.dumps(kept)))
    for name in sorted(wanted):
        wanted |= set(re.findall(r'schemas/([^"]+)"', json.dumps(schemas[name])))
    found = {name: _plain(schemas[name]) for name in sorted(wanted)}
    for name in schemas:
        if re.fullmatch(r"v[0-9.]+_job_info", name):
            found[name] = {"properties": {key: {} for key in schemas[name]["properties"]}}
    return {"openapi": document["openapi"], "paths": kept, "components": {"schemas": found}}


def _plain(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items()
                if not (key in ("description", "example") and isinstance(value, str))}  # fmt: skip
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


def main() -> None:
    if reason := missing():
        raise SystemExit(reason)
    version = re.sub(r"\D*(\d+\.\d+).*", r"\1", subprocess.check_output(["slurmctld", "-V"], text=True).strip())
    before = 100 if version == "20.11" else 101  # 20.11 begins with the number behind it
    with tempfile.TemporaryDirectory() as place:
        folder, told = Path(place) / "slurm", dict[str, str]()
        with accounting(folder) as (more, first), running_slurm(
            folder, nodes=5, cores=28, sockets=2, partitions=PARTITIONS, more=f"{more}\nFirstJobId={before}",
            node="Feature=fast RealMemory=20000", first=first,
        ) as slurm:  # fmt: skip
            record(slurm, told, bool(more))
        programs = str(Path(shutil.which("squeue") or "").parent)
        for old in RECORDED.glob(f"{version}-*"):
            old.unlink()
        for name, text in told.items():
            for this, instead in (
                (re.escape(str(folder)), "/cluster"), (r"/tmp/cohabit-rest-\w+", "/cluster"),
                (re.escape(programs), "/usr/bin"), (re.escape(os.getcwd()), "/home/user"),
                (rf"\b{re.escape(socket.gethostname().split('.')[0])}\b", "host"),
            ):  # fmt: skip
                text = re.sub(this, instead, text)
            (RECORDED / f"{version}-{name}").write_text(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.write(f"{version}: {', '.join(told)}\n")


def record(slurm: SlurmCluster, told: dict[str, str], accounted: bool) -> None:
    make_jobs(slurm)
    told["jobs.txt"] = slurm.run(*commands.list_jobs_text())
    told["nodes.txt"] = slurm.run(*commands.list_nodes())
    told["partitions.txt"] = slurm.run(*commands.list_partitions())
    config = slurm.run(*commands.show_config()).splitlines()
    told["config.txt"] = "\n".join(line for line in config if line.split(" ")[0] in CONFIG)
    for form in ("", commands.TELLS_SHARING):
        said = slurm.run(*commands.list_jobs_json(form), check=False)
        if form and "squeue.json" in told and says_too_little(told["squeue.json"]):
            short = json.loads(told["squeue.json"])  # one job is enough to see that
            told["squeue-newest.json"] = compact(json.dumps(short | {"jobs": short["jobs"][:1]}))
            told["squeue.json"] = compact(said)
        elif not form and said.startswith("{"):
            told["squeue.json"] = compact(said)
    slurm.start_rest()
    headers = {"X-SLURM-USER-NAME": "root"}
    headers |= {"X-SLURM-USER-TOKEN": slurm.rest_token.read_text()} if slurm.rest_token else {}
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(slurm.rest)), base_url="http://slurm", headers=headers
    ) as rest:
        document = rest.get("/openapi/v3").json()
        told["rest-openapi.json"] = compact(json.dumps(tells_of_jobs_and_nodes(document)))
        path = max((path for path in document["paths"] if re.match(r"/slurm/v[0-9.]+/nodes/?$", path)), key=form_number)
        told["rest-nodes.json"] = compact(rest.get(path).text)
    if accounted:
        until(lambda: "120_4|FAILED" in slurm.run(*commands.accounting(["120"]), check=False), 60)
        told["sacct.txt"] = slurm.run(*commands.accounting(["101", "110", "111", "112", "120"]))
    slurm.stop("slurmrestd", "slurmctld")
    said = slurm.run(*commands.list_jobs_json(), check=False)
    if said.startswith("{"):
        told["squeue-away.json"] = compact(said)


def says_too_little(text: str) -> bool:
    try:
        json_output.jobs(text)
    except json_output.Incomplete:
        return True
    return False


def compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


if __name__ == "__main__":
    os.environ |= {"TZ": "UTC", "LC_ALL": "C", "SLURM_BITSTR_LEN": "0"}
    time.tzset()
    main()
