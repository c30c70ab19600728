"""How much more time real users ask for than their jobs need: quantiles of requested over used time, by run time.

estimates.json was made of four public logs of the Parallel Workloads Archive, 5,000 jobs each (the slices the tests
read): `python -m cohabit.reproduce.joint.estimates LOG.swf.xz ...` prints it again. Jobs that ran into their limit say
nothing of estimates and are left out. Short jobs are overestimated most, so the table goes by run time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.trace.catalogue import read_trace

Floats = NDArray[np.float64]
EDGES_S = (60.0, 300.0, 1200.0, 3600.0)  # between the classes of run times
SHORTEST_S = 30.0  # a shorter run says how fast it failed
QUANTILES = 21


def quantiles(log: Workload) -> dict[str, Any]:
    """Return the quantiles of requested over used time of each class of run times, and the longest request."""
    run, limit = log.run_us / SECOND, log.limit_us / SECOND
    counted = (log.rejection == ACCEPTED) & (run >= SHORTEST_S) & (limit > run)
    run, ratio = run[counted], limit[counted] / run[counted]
    kind = np.digitize(run, EDGES_S)
    places = np.linspace(0.0, 1.0, QUANTILES)
    classes = [np.quantile(ratio[kind == one], places).round(3).tolist() for one in range(len(EDGES_S) + 1)]
    return {"longest_s": float(limit[counted].max()), "classes": classes}


def document_of(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the table of these logs."""
    logs = {path.name.split(".swf")[0]: quantiles(read_trace(path)) for path in sorted(paths)}
    return {"about": "requested over used time, by run time", "edges_s": list(EDGES_S), "logs": logs}


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return the quantiles by log."""
    text = (resources.files("cohabit.reproduce.joint") / "estimates.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["logs"]
    return found


def requests_s(rng: np.random.Generator, run_s: Floats, log: str) -> Floats:
    """Draw requested times for jobs of these run times, as the users of a log ask."""
    known = table()[log]
    places, drawn = np.linspace(0.0, 1.0, QUANTILES), rng.random(len(run_s))
    kinds = np.digitize(run_s, EDGES_S)
    pairs = zip(drawn, kinds, strict=True)
    ratios = np.array([np.interp(place, places, known["classes"][kind]) for place, kind in pairs])
    asked: Floats = np.ceil(np.minimum(run_s * ratios, np.maximum(known["longest_s"], run_s)))
    return asked


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document_of([Path(text) for text in sys.argv[1:]])).replace("], [", "],\n[") + "\n")
