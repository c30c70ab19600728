"""pyss's EASY on an SWF file, through the functions its own run_simulator.py calls. pyss is Python 2, and so is this.

    python2 pyss_run.py FOLDER_OF_PYSS/src JOBS.swf NODES STARTS
"""

import sys

sys.path.insert(0, sys.argv[1])
from base.prototype import Job
from schedulers.easy_scheduler import EasyBackfillScheduler
from schedulers.simulator import run_simulator

nodes = int(sys.argv[3])
jobs = []
with open(sys.argv[2]) as lines:
    for line in lines:
        if not line.startswith(";"):
            field = [int(word) for word in line.split()]
            jobs.append(Job(field[0], field[8], field[3], field[7], field[1]))
run_simulator(num_processors=nodes, jobs=jobs, scheduler=EasyBackfillScheduler(nodes))
with open(sys.argv[4], "w") as out:
    for job in jobs:
        out.write("{} {}\n".format(job.id, int(job.start_to_run_at_time)))  # noqa: UP032
