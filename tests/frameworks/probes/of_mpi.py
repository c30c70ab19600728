"""An MPI rank: who it is, who is there, where it runs. With a number as argument, rank 1 ends with that status."""

import json
import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
report = {
    "rank": world.rank, "size": world.size, "sum": world.allreduce(world.rank + 1),
    "library": MPI.Get_library_version(),
    "cores": sorted(os.sched_getaffinity(0)), "threads": os.environ["OMP_NUM_THREADS"],
    "told": os.environ["COHABIT_RANK"], "node": os.environ["COHABIT_NODE"], "scale": os.environ["COHABIT_SCALE"],
}  # fmt: skip
sys.stdout.write(json.dumps(report) + "\n")
sys.stdout.flush()
if sys.argv[1:] == ["wait"]:
    time.sleep(120)
elif sys.argv[1:] and world.rank == 1:
    os._exit(int(sys.argv[1]))
