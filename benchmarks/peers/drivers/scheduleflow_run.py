"""ScheduleFlow's EASY on an SWF file, through its own classes.

    python scheduleflow_run.py FOLDER_OF_SCHEDULEFLOW JOBS.swf NODES STARTS
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import ScheduleFlow

simulator = ScheduleFlow.Simulator(check_correctness=False, generate_gif=False)
scheduler = ScheduleFlow.Scheduler(
    ScheduleFlow.System(int(sys.argv[3])), priority_policy=ScheduleFlow.PriorityPolicy.FCFS,
    backfill_policy=ScheduleFlow.BackfillPolicy.Easy,
)  # fmt: skip
simulator.create_scenario(scheduler)
numbers = {}
for line in Path(sys.argv[2]).read_text().splitlines():
    if not line.startswith(";"):
        field = [int(word) for word in line.split()]
        job = ScheduleFlow.Application(field[7], field[1], field[3], [field[8]])
        simulator.add_application(job)
        numbers[job] = field[0]
simulator.run()
log = simulator.get_execution_log()
Path(sys.argv[4]).write_text("".join(f"{numbers[job]} {int(runs[0][0])}\n" for job, runs in log.items()))
