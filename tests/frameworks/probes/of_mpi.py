"""An MPI rank reports its number, the size of its world and its cores.

With a number as argument, rank 1 ends with that status and rank 0 waits until it is killed: a rank 0 that went into
MPI_Finalize meanwhile would sometimes fail there first, with a status of its own.
"""

import json
import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
report = {
    "rank": world.rank, "size": world.size, "sum": world.allreduce(world.rank + 1),
    "library": MPI.Get_library_version()[:16],
    "cores": sorted(os.sched_getaffinity(0)), "threads": os.environ["OMP_NUM_THREADS"],
    "told": os.environ["COHABIT_RANK"], "node": os.environ["COHABIT_NODE"], "scale": os.environ["COHABIT_SCALE"],
}  # fmt: skip
sys.stdout.write(json.dumps(report) + "\n")
sys.stdout.flush()
if sys.argv[1:] and sys.argv[1] != "wait" and world.rank == 1:
    os._exit(int(sys.argv[1]))
if sys.argv[1:]:
    time.sleep(120)
