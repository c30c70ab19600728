"""Measured pairs of our own exercises, and what models make of them. Needs a quiet machine with two cores.

    python -m benchmarks.own_pairs [--seconds 4] [--out DIR]               # 25 minutes
    python -m benchmarks.own_pairs --quick --busy --out DIR                # a trial of the command: four exercises
    python -m benchmarks.own_pairs --judge [--out DIR]                     # the figures of a data set that is there

Each of ten exercises gets as much work as takes so many seconds here, runs alone three times and twice beside each,
itself included (`cohabit measure pairs`, halves of the cores). DIR (tests/data/own-pairs) gets pairs.csv with the noise
of every run, pairs.csv.meta.json with the machine, and figures.json: `law` on families left out, and with two co-runs
of each new program, beside the three baselines (`cohabit train degradation`). The same call goes on after a stop.
tests/predict/test_own_pairs.py reads all three; figures go into docs/colocation-evidence.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cohabit.app.learn.learning import HeldOut, train_degradation
from cohabit.app.measure.measuring import busy_load
from cohabit.trace.corun_data import read_coruns
from cohabit.whole_files import replacing

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "own-pairs"
NAMES = (
    "stream", "random-access", "stencil", "dense", "graph-walk", "sort", "compression", "branchy", "allocation", "disk",
)  # fmt: skip
QUICK = ("stream", "dense", "sort", "allocation")
COHABIT = (sys.executable, "-m", "cohabit.cli")


def work_of(name: str, seconds: float) -> int:
    """Return the rounds of an exercise that take so many seconds here."""
    words = (*COHABIT, "exercise", name, "--seconds", "3", "--json")
    done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout)
    return max(1, round(done["rounds"] * seconds / done["seconds"]))


def plan_of(work: Mapping[str, int], repeats: int, pair_repeats: int, sources: Sequence[str] = ()) -> str:
    """Return PROGRAMS.toml for exercises with so many rounds of work each."""
    lines = ['cores = "split"', f"repeats = {repeats}", f"pair_repeats = {pair_repeats}"]
    lines += [f"sources = {json.dumps(list(sources))}"] if sources else []
    for name, rounds in work.items():
        command = ["cohabit", "exercise", name]
        run, beside = [*command, "--work", str(rounds)], [*command, "--seconds", "300"]
        lines += [
            "",
            "[[program]]",
            f'name = "{name}"',
            f"command = {json.dumps(run)}",
            f"beside = {json.dumps(beside)}",
        ]
    return "\n".join(lines) + "\n"


def figures_of(data: Path) -> dict[str, Any]:
    """Return what `cohabit train degradation --model law` says of this data, in figures."""
    read = read_coruns(data)
    found = train_degradation(HeldOut(read), "law").document
    return {
        "rows": found["rows"],
        "programs": found["applications"],
        "families": {name: one["mean_error"] for name, one in found["by_split"]["family"].items() if name != "rows"},
        "new_programs": found["new_programs"],
        "not_beaten": found["not_beaten"],
    }


def main() -> int:
    """Measure, judge, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.own_pairs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a run alone")
    parser.add_argument("--quick", action="store_true", help="four exercises of a second, measured once")
    parser.add_argument("--judge", action="store_true", help="measure nothing")
    parser.add_argument("--busy", action="store_true", help="measure although the machine is busy")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    asked = parser.parse_args()
    if not 0.5 <= asked.seconds <= 600:
        parser.error("--seconds is not from 0.5 to 600")
    if asked.quick and asked.out == OUT:
        parser.error("--quick measures too little to be kept: name another folder with --out")
    data, plan = asked.out / "pairs.csv", asked.out / "programs.toml"
    if not asked.judge:
        refuse_busy(asked.busy)
        asked.out.mkdir(parents=True, exist_ok=True)
        if not plan.exists():
            with replacing(plan) as stream:
                names, seconds = (QUICK, 1.0) if asked.quick else (NAMES, asked.seconds)
                work = {name: work_of(name, seconds) for name in names}
                stream.write(plan_of(work, *((2, 1) if asked.quick else (3, 2))).encode())
        measured = measure(plan, data)
        if measured:
            return measured
    elif not data.exists():
        parser.error(f"there is no {data.name} in --out: leave out --judge")
    figures = figures_of(data)
    with replacing(asked.out / "figures.json") as stream:
        stream.write(json.dumps(figures, indent=1).encode() + b"\n")
    print(json.dumps(figures, indent=1))
    return 0


def refuse_busy(allowed: bool) -> None:
    """End with status 2 where other work runs, before anything is measured; `allowed`: it may."""
    load = busy_load()
    if load is not None and not allowed:
        what = f"other work keeps {load:.1f} cores busy: wait until nothing else runs"
        print(f"{what}, or add --busy for a trial of the command", file=sys.stderr)
        sys.exit(2)


def measure(plan: Path, data: Path) -> int:
    """Run `cohabit measure pairs`; return its exit status."""
    return subprocess.run((*COHABIT, "measure", "pairs", str(plan), "--out", str(data)), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
