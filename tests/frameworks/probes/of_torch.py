"""A PyTorch process: its threads and cores, and where there are several, a sum over all of them."""

import json
import os
import sys

import torch
import torch.distributed as distributed

product = torch.ones(400, 400) @ torch.ones(400, 400)  # so that the pool of threads is there
report = {
    "version": torch.__version__, "threads": torch.get_num_threads(), "cores": sorted(os.sched_getaffinity(0)),
    "inter": torch.get_num_interop_threads(), "product": product[0, 0].item(),
}  # fmt: skip
if "RANK" in os.environ:
    distributed.init_process_group("gloo")
    if sys.argv[1:] and distributed.get_rank() == 1:
        sys.exit(int(sys.argv[1]))
    total = torch.tensor([distributed.get_rank() + 1.0])
    distributed.all_reduce(total)
    report |= {"rank": distributed.get_rank(), "size": distributed.get_world_size(), "sum": total.item(),
               "node": os.environ["COHABIT_NODE"]}  # fmt: skip
    distributed.destroy_process_group()
sys.stdout.write(json.dumps(report) + "\n")
