"""The load of Cohabit on slurmctld: `python -m benchmarks.slurmctld_load --minutes 10`. CPU seconds, from /proc.

A real Slurm of 8 nodes x 28 cores on this machine gets the same stream of sleeping jobs twice: plain, and steered by
`cohabit slurm attach`. Counted are the processor seconds of slurmctld itself, and of the controller of Cohabit with all
the commands it called. As root, with Debian's Slurm. Our job_submit.lua is loaded in both runs; without a lease it lets
every job pass. Runs under different load of the machine are compared only roughly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.processes import cpu_s
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

NODES, CORES = 8, 28
SIZES = (1, 2, 4, 7, 14, 28, 28, 56)
LUA = Path(__file__).parents[1] / "packaging" / "slurm" / "job_submit.lua"
SITE = """place = "{folder}/place"
[policy]
name = "{policy}"
[slurm]
partitions = ["all"]
conf = "{folder}/slurm/slurm.conf"
lease = "{folder}/lease"
poll_s = {poll_s}
"""


def feed(slurm: SlurmCluster, script: Path, minutes: float, gap_s: float) -> int:
    """One job every `gap_s`, of the same sizes and lengths each time; how many."""
    chance, begun_s, sent = random.Random(7), time.monotonic(), 0
    while time.monotonic() - begun_s < 60 * minutes:
        slurm.run("sbatch", "--parsable", "--output=/dev/null", f"-n{chance.choice(SIZES)}", "--time=5", str(script),
                  str(chance.randint(10, 60)))  # fmt: skip
        sent += 1
        time.sleep(max(0.0, begun_s + sent * gap_s - time.monotonic()))
    return sent


def attach(folder: Path, policy: str, poll_s: float) -> subprocess.Popen[bytes]:
    """The controller, steering."""
    site, said = folder / "site.toml", folder / "attach.log"
    site.write_text(SITE.format(folder=folder, policy=policy, poll_s=poll_s))
    with said.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "cohabit.cli", "slurm", "attach", str(site)], stdout=stream, stderr=stream,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    deadline_s = time.monotonic() + 180
    while "cohabit: steering" not in said.read_text():
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"the controller did not start: {said.read_text()}")
        time.sleep(0.2)
    return process


def measure(minutes: float, gap_s: float, policy: str, poll_s: float) -> dict[str, float | int | str]:
    """One run; no policy: plain Slurm."""
    with tempfile.TemporaryDirectory(prefix="cohabit-load-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        script = folder / "job.sh"
        script.write_text("#!/bin/sh\nsleep $1\n")
        held = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
        with running_slurm(folder / "slurm", nodes=NODES, cores=CORES, sockets=2, job_submit=held) as slurm:
            steering = attach(folder, policy, poll_s) if policy else None
            pid = slurm.daemons["slurmctld"].pid
            before, begun_s = cpu_s(pid), time.monotonic()
            ours = 0.0 if steering is None else cpu_s(steering.pid, with_children=True)
            sent = feed(slurm, script, minutes, gap_s)
            took_s, used_s = time.monotonic() - begun_s, cpu_s(pid) - before
            done = slurm.run("squeue", "--states=COMPLETED", "--noheader", "-o", "%i").split()
            found: dict[str, float | int | str] = {
                "policy": policy or "plain Slurm", "minutes": round(took_s / 60, 2), "submitted": sent,
                "completed_and_remembered": len(done), "slurmctld_cpu_s": round(used_s, 2),
            }  # fmt: skip
            if steering is not None:
                found["controller_and_commands_cpu_s"] = round(cpu_s(steering.pid, with_children=True) - ours, 2)
                steering.send_signal(signal.SIGTERM)
                steering.wait(60)
                subprocess.run([sys.executable, "-m", "cohabit.cli", "slurm", "detach", str(folder / "site.toml")],
                               check=False, capture_output=True, timeout=120)  # fmt: skip
    return found


def main() -> None:
    """Plain, then steered; one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each run")
    parser.add_argument("--gap-s", type=float, default=3.0, help="between submissions")
    parser.add_argument("--poll-s", type=float, default=1.0, help="as in the site file")
    parser.add_argument("--policies", default=",ce,sns", help="separated by commas; an empty one is plain Slurm")
    options = parser.parse_args()
    if reason := missing():
        raise SystemExit(reason)
    for policy in options.policies.split(","):
        sys.stdout.write(json.dumps(measure(options.minutes, options.gap_s, policy, options.poll_s)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
