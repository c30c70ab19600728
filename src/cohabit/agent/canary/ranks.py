"""One rank of the canary: pass a token around a ring, then all-reduce; measure the wait per call. Run under mpirun.

Started as `python -m cohabit.agent.canary.ranks SIZE_BYTES RING_ROUNDS ALLREDUCE_ROUNDS OUT`; rank 0 writes one JSON
document to OUT. It imports mpi4py and numpy and nothing else of ours, so that it starts quickly on many nodes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def ring(world: Any, token: Any, rounds: int) -> tuple[float, float]:
    """Pass the token around; return the mean seconds this rank waited per send and per receive."""
    rank, size = world.Get_rank(), world.Get_size()
    following, preceding = (rank + 1) % size, (rank - 1) % size
    sent_s = received_s = 0.0
    for _ in range(rounds):
        for sending in (rank == 0, rank != 0):  # rank 0 sends the token before it waits for its return
            began_s = time.perf_counter()
            if sending:
                world.Send(token, following)
                sent_s += time.perf_counter() - began_s
            else:
                world.Recv(token, preceding)
                received_s += time.perf_counter() - began_s
    return sent_s / rounds, received_s / rounds


def all_reduce(world: Any, data: Any, rounds: int) -> float:
    """Sum the numbers of all ranks on all ranks; return the mean seconds per call."""
    import numpy as np

    total = np.empty_like(data)
    took_s = 0.0
    for _ in range(rounds):
        began_s = time.perf_counter()
        world.Allreduce(data, total)
        took_s += time.perf_counter() - began_s
    return took_s / rounds


def main(size_bytes: int, ring_rounds: int, reduce_rounds: int, out: Path) -> None:
    """Run both, and write what every rank waited."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    began_s = time.perf_counter()
    data = np.random.default_rng(world.Get_rank()).random(max(1, size_bytes // 8))
    world.Barrier()
    sent_s, received_s = ring(world, data, ring_rounds)
    world.Barrier()
    waits = world.gather((sent_s, received_s, all_reduce(world, data, reduce_rounds)), root=0)
    if waits is not None:
        out.write_text(json.dumps({"waits_s": waits, "inside_s": time.perf_counter() - began_s}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
