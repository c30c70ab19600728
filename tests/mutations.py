"""Does the short form of the tests notice a broken rule? Twenty rules are broken, one at a time, in a copy.

    .venv/bin/python -m tests.mutations             # all of them: about ten minutes
    .venv/bin/python -m tests.mutations 3 17        # these

A mutant is noticed when a test of the short form fails. The tests of the rule are asked first, with kernels as plain
Python so that nothing is compiled; then the folders in which that is to be expected, then all others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SHORT = "not wide and not timing and not cluster"
RULES = ("core", "conformance", "contract", "property", "replay", "sim")


class Mutant(NamedTuple):
    """One line of the product, and what becomes of it."""

    file: str
    line: str
    becomes: str
    rule: str
    first: str = ""  # tests of this very rule
    asked: tuple[str, ...] = RULES


MUTANTS = (
    Mutant("core/kernels/easy.py", "machine.gauges[EXTRA] -= queue.jobs[NODES, row]", "pass",
           "EASY: a backfilled job that outlasts the shadow time uses up spare nodes", "core/kernels/test_easy.py"),
    Mutant("core/kernels/easy.py", "shadow = jobs[EXPECTED, row]\n", "shadow = jobs[EXPECTED, row] + 1\n",
           "EASY: the shadow time is the requested end of the run that frees enough nodes",
           "core/kernels/test_easy.py"),
    Mutant("core/kernels/depth.py", "and reserved < rule.depth", "and reserved <= rule.depth",
           "a depth of n makes n reservations", "core/kernels/test_depth.py"),
    Mutant("core/kernels/moves.py", "    if depth == CONSERVATIVE:\n", "    if False:\n",
           "conservative: an early end gives its nodes back to the plan",
           "core/kernels/test_moves.py core/kernels/test_conservative.py"),
    Mutant("core/apply.py", "            or self.state.jobs[ATTEMPT, row] != attempt\n", "",
           "the end of an earlier attempt does not end the present one", "core/test_parts.py core/test_steps.py"),
    Mutant("core/apply.py", "if row in state.held or state.waiting_for.get(row)", "if state.waiting_for.get(row)",
           "a held job does not enter the queue", "core/test_parts.py core/test_steps.py core/test_state.py"),
    Mutant("core/apply.py", "if status != WENT_WELL and not job.after_any:", "if False:",
           "a job whose dependency failed is cancelled", "core/test_parts.py core/test_steps.py"),
    Mutant("core/apply.py", "QUEUED)) >= at_most", "QUEUED)) > at_most", "an array runs at most so many at once",
           "core/test_parts.py core/test_steps.py"),
    Mutant("core/sharing.py", "if self.depth == STRICT or aged:", "if self.depth == STRICT:",
           "no job overtakes one that has waited past the age limit",
           "core/test_sharing.py core/test_shared_nodes.py core/test_spread_n_share.py"),
    Mutant("core/sharing.py", "w.begin_us < until and view.now_us < w.end_us", "w.begin_us <= view.now_us < w.end_us",
           "no job starts that would run into a maintenance window", "core/test_sharing.py core/test_windows.py"),
    Mutant("core/ledger.py", "= (self.free >= wanted).all(axis=0)", "= (self.free >= wanted)[:2].all(axis=0)",
           "shared nodes have room in every dimension", "core/test_ledger.py"),
    Mutant("core/gating.py", "if self._view.gauges[RELEASED] or known[ASKED] != _occasion(self._view):",
           "if self._view.gauges[RELEASED]:", "newer telemetry makes the gate ask again", "core/test_gating.py"),
    Mutant("core/kernels/fair_share.py", "* 2.0**age\n", "\n", "fair share: usage decays by its half-life",
           "core/kernels/test_fair_share.py"),
    Mutant("policy/order/wfp.py", "return -(waited * waited * waited) * size", "return -(waited * waited) * size",
           "WFP: the third power of the wait per request", "property/test_orders.py"),
    Mutant("policy/placement/spread.py", "one.scale == 1 or base / one.time_s >= alpha]", "True]",
           "Spread-n-Share: no scale that is slower than alpha allows", "core/test_spread_n_share.py"),
    Mutant("sim/machine/law.py", "total / cap) - law.latency_knee)", "total / cap))",
           "the law of contention: latency grows from the knee on", "sim/machine"),
    Mutant("model/units.py", "if seconds < 59.5:", "if seconds < 60:",
           "a duration of 59.7 s is said as 1 min", "model/test_durations.py", ("model",)),
    Mutant("report/metrics.py", "np.maximum(run_s, bound_s), 1.0)", "np.maximum(run_s, 1.0), 1.0)",
           "bounded slowdown: short runs count as the bound", "report", ("report", "app", "cli")),
    Mutant("trace/swf.py", "np.where(columns[9] > 0, columns[9], run_us)", "np.maximum(columns[9], run_us)",
           "SWF: the limit is the requested time, else the run time", "trace/test_swf_reading.py", ("trace", "app")),
    Mutant("launcher/settings.py", "if uid < min_uid:", "if uid < 0:", "root's jobs are not run unless listed",
           "", ("backend", "attack")),
    Mutant("live/api/looking.py", "Refusal(404, words, ", "Refusal(403, words, ",
           "jobs of other users look like jobs that do not exist",
           "live/api/test_access.py live/api/test_safety.py", ("live", "attack")),
)  # fmt: skip


def main() -> int:
    """All, or those whose numbers are given; status 1 if one more than allowed went unnoticed."""
    chosen = [int(word) for word in sys.argv[1:]] or list(range(1, len(MUTANTS) + 1))
    unnoticed = []
    with tempfile.TemporaryDirectory(prefix="cohabit-mutations-") as name:
        copy = Path(name) / "copy"
        for number in chosen:
            began, mutant = time.monotonic(), MUTANTS[number - 1]
            by = _noticed_by(mutant, copy)
            if not by:
                unnoticed.append(number)
            sys.stdout.write(f"{number:2} {time.monotonic() - began:5.0f} s  {mutant.rule}: {by or 'NOT NOTICED'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - len(unnoticed)} of {len(chosen)} noticed\n")
    return int(len(unnoticed) > 1)


def _noticed_by(mutant: Mutant, copy: Path) -> str:
    """The first test that fails; empty: none does."""
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "out", "__pycache__", ".*_cache"))
    broken = copy / "src" / "cohabit" / mutant.file
    text = broken.read_text()
    assert text.count(mutant.line) == 1, f"{mutant.file} has {text.count(mutant.line)} times {mutant.line!r}"
    broken.write_text(text.replace(mutant.line, mutant.becomes))
    others = sorted(one.name for one in (copy / "tests").iterdir() if (one / "__init__.py").exists())
    if mutant.first and (found := _first_failure(copy, mutant.first.split(), "plain")):
        return found
    for folders in (mutant.asked, [one for one in others if one not in mutant.asked]):
        if found := _first_failure(copy, folders):
            return found
    return ""


def _first_failure(copy: Path, tests: Sequence[str], kernels: str = "") -> str:
    command = [
        sys.executable, "-m", "pytest", "-x", "-n", "2", "-m", SHORT, "--tb=no", "-p", "no:cacheprovider",
        *(str(copy / "tests" / one) for one in tests if (copy / "tests" / one).exists()),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")} | ({"COHABIT_KERNELS": kernels} if kernels else {})
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=environment)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].removeprefix("FAILED ")[:100] if failed else ""


if __name__ == "__main__":
    sys.exit(main())
