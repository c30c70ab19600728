"""The plain Python simulator of `make bench` as a program: SWF and nodes in, `job start` per line out.

    python -m benchmarks.peers.drivers.plain_run JOBS.swf NODES STARTS
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.plain_easy import simulate

jobs = [list(map(int, line.split())) for line in Path(sys.argv[1]).read_text().splitlines() if line[0] != ";"]
submit, run, limit, size = ([job[column] for job in jobs] for column in (1, 3, 8, 7))
starts = simulate(submit, run, limit, size, int(sys.argv[2]))
Path(sys.argv[3]).write_text("".join(f"{job[0]} {start}\n" for job, start in zip(jobs, starts, strict=True)))
