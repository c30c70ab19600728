"""A day of sixty jobs of six exercises, of which the model knows four: does pairing improve while they run?

    python -m benchmarks.learning_day --out DIR [--jobs 60] [--seconds 10]   # a quiet machine of two cores, 25 minutes
    python -m benchmarks.learning_day --out DIR --quick --busy                # a trial of the command

Four exercises are measured alone and in pairs and a model is trained (`law`). Then a controller begins with an empty
store under pair-saving with that model: every program's first run is alone and measured, later ones are paired, and
co-runs teach. Rounds of six, one job of each exercise in random order, follow each other as room comes. DIR/day.json
has predicted against measured slowdowns, their error, and the node's time per job, by thirds of the day; DIR/report/ is
what `cohabit report` says; what is known of the two new programs, as prior and as their own, is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.own_pairs import COHABIT, measure, plan_of, refuse_busy, work_of
from cohabit.whole_files import replacing
from tests.cli.cli_calls import cohabit
from tests.verbs.living import AN_ACCOUNT, Scheduler

KNOWN = ("stream", "dense", "sort", "allocation")
NEW = ("random-access", "compression")
SITE = """
nodes = 1
place = "{place}"
oversubscribe = true
[policy]
name = "pair-saving"
model = "{model}"
trust_model = true
"""
THIRDS = 3
LOOK_S = 1.0
LIMIT = "30m"


def model_of(folder: Path, work: dict[str, int], quick: bool) -> Path:
    """Measure the known exercises alone and in pairs, and train on that; what is there already is kept."""
    model, plan = folder / "model", folder / "programs.toml"
    if model.exists():
        return model
    plan.write_text(plan_of({name: work[name] for name in KNOWN}, 2, 1 if quick else 2, ("procfs",)))
    if status := measure(plan, folder / "pairs.csv"):
        sys.exit(status)
    words = ("train", "degradation", str(folder / "pairs.csv"), "--model", "law", "--out", str(model))
    subprocess.run((*COHABIT, *words), check=True, stdout=subprocess.DEVNULL)
    return model


def run_day(server: Scheduler, work: dict[str, int], jobs: int, seed: int) -> list[dict[str, Any]]:
    """Submit rounds as room comes; return the jobs in the order in which they ended."""
    rng, names = np.random.default_rng(seed), list[str]()
    while True:
        left = [one for one in server.ok("queue")["jobs"] if one["state"] in ("queued", "running")]
        while len(names) < jobs and len(left) < len(work):
            for program in rng.permutation(sorted(work))[: jobs - len(names)].tolist():
                name = f"{program}-{len(names)}"
                words = ("--", sys.executable, "-m", "cohabit.cli", "exercise", program, "--work", str(work[program]))
                server.submit("--name", name, "--limit", LIMIT, "--program", program, *words)
                names.append(name)
                left.append({})
        if not left:
            break
        time.sleep(LOOK_S)
    found = {one["job"]: one for one in server.ok("queue", "--all")["jobs"]}
    bad = [name for name in names if found[name]["state"] != "done"]
    assert not bad, f"these did not end well: {bad}"
    return sorted((found[name] for name in names), key=lambda one: float(one["ended_at"]))


def figures(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a third of the day in figures."""
    begin, end = min(one["started_at"] for one in jobs), max(one["ended_at"] for one in jobs)
    judged = [one for one in jobs if one["actual_slowdown"] is not None and one["predicted_slowdown"] is not None]
    off = [100 * abs(one["predicted_slowdown"] - one["actual_slowdown"]) for one in judged]
    beside = [one for one in jobs if any(_overlap_s(one, other) > 1.0 for other in jobs if other is not one)]
    return {
        "jobs": len(jobs),
        "beside_another": len(beside),
        "node_s_per_job": (end - begin) / len(jobs),
        "judged": len(judged),
        "mean_measured_slowdown": float(np.mean([one["actual_slowdown"] for one in judged])) if judged else None,
        "mean_predicted_slowdown": float(np.mean([one["predicted_slowdown"] for one in judged])) if judged else None,
        "mean_error_points": float(np.mean(off)) if off else None,
    }


def _overlap_s(one: dict[str, Any], other: dict[str, Any]) -> float:
    return float(min(one["ended_at"], other["ended_at"]) - max(one["started_at"], other["started_at"]))


def main() -> int:
    """Measure, train, run, tell."""
    words = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning_day", description=words)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="an empty folder; a model in it is kept")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a job alone, from 5.5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="twelve jobs")
    parser.add_argument("--busy", action="store_true", help="go on although the machine is busy")
    asked = parser.parse_args()
    if not 6 <= asked.jobs <= 10_000 or not 5.5 <= asked.seconds <= 3600:
        parser.error("--jobs is at least 6, --seconds from 5.5 to 3600")
    folder = asked.out.absolute()
    if (folder / "place").exists():
        parser.error(f"{asked.out} has the place of an earlier day: name another folder")
    refuse_busy(asked.busy)
    folder.mkdir(parents=True, exist_ok=True)
    count = 12 if asked.quick else asked.jobs
    work = {name: work_of(name, asked.seconds) for name in (*KNOWN, *NEW)}
    site = folder / "site.toml"
    model = model_of(folder, work, asked.quick)
    site.write_text(SITE.format(place=folder / "place", model=model) + AN_ACCOUNT)
    server = Scheduler(folder / "place", command=("controller", str(site))).start()
    try:
        jobs = run_day(server, work, count, asked.seed)
        server.call("report", "--out", folder / "report")
        parts = np.array_split(np.arange(len(jobs)), THIRDS)
        whole = {"jobs": figures(jobs), "thirds": [figures([jobs[at] for at in part]) for part in parts]}
        whole["report"] = server.ok("report").get("slowdowns")
        shown = {name: ("profiles", "show", name, "--server", server.socket) for name in NEW}
        whole["known_of_new"] = {name: cohabit(*shown[name], "--json").document["neighbours"] for name in NEW}
        with replacing(folder / "day.json") as stream:
            stream.write(json.dumps(whole, indent=1).encode() + b"\n")
        print(json.dumps({name: whole[name] for name in ("jobs", "thirds")}, indent=1))
        for name in NEW:
            print(cohabit(*shown[name]).out)
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
