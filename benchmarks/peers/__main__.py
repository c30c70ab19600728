"""`python -m benchmarks.peers`: run the peers that are here beside Cohabit, write docs/peers.json and docs/peers.md.

Simulators first (`--simulators`), then batch systems on one node (`--live`); with neither, both. A part that is not run
keeps the figures of its last run. Peers that are not here are named in the page with how to get them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers import page, workload
from benchmarks.peers.live_systems import SYSTEMS
from benchmarks.peers.simulators import ADAPTERS, Given, make_accasim, measure

DOCS = Path(__file__).parents[2] / "docs"
FOLDERS = ("pyss", "cqsim", "scheduleflow", "alea")


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """Describe the machine, without names."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    processor = f"{os.cpu_count()} cores {platform.machine()}, {memory_gb:.0f} GB"
    return f"{processor}, {system}, Python {platform.python_version()}"


def begun(words: list[str]) -> dict[str, Any]:
    """The circumstances of a run."""
    return {
        "date": time.strftime("%Y-%m-%d"), "command": shlex.join(["python", "-m", "benchmarks.peers", *words]),
        "machine": machine(), "load_before": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def simulators(asked: argparse.Namespace) -> dict[str, Any]:
    """Every simulator on every workload."""
    part = begun(asked.words) | {"versions": {}, "missing": {}, "workloads": []}
    sizes = [(1_000, 128)] if asked.quick else [(5_000, 128), (100_000, 1_024), (1_000_000, 1_024)]
    folders = {key: getattr(asked, key).resolve() for key in FOLDERS if getattr(asked, key)}
    with tempfile.TemporaryDirectory(prefix="cohabit-peers-") as name:
        folder = Path(name)
        given = Given(folders, asked.accasim or make_accasim(folder / "accasim"), asked.python2)
        here = []
        for one in ADAPTERS:
            if problem := one.missing(given):
                part["missing"][one.name] = problem
            else:
                here.append(one)
                part["versions"][one.name] = one.version(given)
        for jobs, nodes in sizes:
            work, found = workload.make(folder, jobs, nodes), {}
            for one in list(here):
                found[one.name] = measure(one, given, work, folder, asked.limit_s)
                say(f"{work.label}: {one.name}: {found[one.name]}")
                if "failed" in found[one.name]:  # nor would it be done with a longer trace
                    here.remove(one)
            part["workloads"].append({"label": work.label, "found": found})
    return part | {"load_after": round(os.getloadavg()[0], 1)}


def live(asked: argparse.Namespace) -> dict[str, Any]:
    """Every batch system, one after the other, each in a process of its own."""
    part: dict[str, Any] = begun(asked.words) | {"cores": os.cpu_count(), "missing": {}, "found": {}}
    part["asked"] = asked.queued or (1_000 if asked.quick else 10_000)
    for one in SYSTEMS:
        if problem := one.missing():
            part["missing"][one.name] = problem
            continue
        command = [sys.executable, "-m", "benchmarks.peers.live", one.name, "--queued", str(part["asked"])]
        command += ["--quick"] if asked.quick else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed = {"failed": f"not measured: {(done.stderr.strip().splitlines() or ['no reason'])[-1][:200]}"}
        part["found"][one.name] = failed if done.returncode else json.loads(done.stdout)
        say(f"{one.name}: {part['found'][one.name]}")
    return part | {"load_after": round(os.getloadavg()[0], 1)}


def folder_given(text: str) -> Path:
    """A folder that exists."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def parse(words: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs; minutes instead of an hour")
    parser.add_argument("--simulators", action="store_true", help="only the simulators")
    parser.add_argument("--live", action="store_true", help="only the batch systems")
    parser.add_argument("--page", action="store_true", help="run nothing; write peers.md again from peers.json")
    parser.add_argument("--accasim", metavar="PYTHON", default="", help="a Python that has AccaSim; else one is made")
    parser.add_argument("--python2", metavar="PROGRAM", default="python2", help="for pyss")
    for key in FOLDERS:
        parser.add_argument(f"--{key}", metavar="DIR", type=folder_given, help="its sources")
    parser.add_argument("--queued", metavar="N", type=int, default=0, help="jobs in the long queue; else 10,000")
    parser.add_argument("--limit-s", type=float, default=300.0, help="CPU seconds for one run of one simulator")
    parser.add_argument("--out", metavar="DIR", type=folder_given, default=DOCS, help="for peers.json and peers.md")
    return parser.parse_args(words, argparse.Namespace(words=words))


def main(words: list[str]) -> None:
    """Run, then write both files."""
    asked = parse(words)
    figures = asked.out / "peers.json"
    if asked.page and not figures.exists():
        say(f"{figures} is not there: run `python -m benchmarks.peers` first")
        raise SystemExit(2)
    facts = json.loads(figures.read_text()) if figures.exists() else {}
    both = asked.simulators == asked.live and not asked.page
    if both or asked.simulators:
        facts["simulators"] = simulators(asked)
    if both or asked.live:
        facts["live"] = live(asked)
    figures.write_text(json.dumps(facts, indent=1) + "\n")
    (asked.out / "peers.md").write_text(page.write(facts))
    say(f"wrote {asked.out / 'peers.md'}")


if __name__ == "__main__":
    main(sys.argv[1:])
