"""A copy of a sequential program: its index and its cores. Ends with the status that its index has in the arguments."""

import json
import os
import sys

rank = int(os.environ["COHABIT_RANK"])
report = {
    "rank": rank, "of": os.environ["COHABIT_PROCESSES"], "node": os.environ["COHABIT_NODE"],
    "cores": sorted(os.sched_getaffinity(0)), "threads": os.environ["OMP_NUM_THREADS"],
}  # fmt: skip
sys.stdout.write(json.dumps(report) + "\n")
sys.exit(int(sys.argv[1 + rank]) if sys.argv[1:] else 0)
