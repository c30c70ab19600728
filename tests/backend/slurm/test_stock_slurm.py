"""Stock Slurm, left to itself: its own waits against those of the scenario that `import slurm-conf` makes of it.

Slurm's records (as `scontrol show job` has them, since there is no accounting here) become a log as sacct writes it.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from cohabit.app.advise.stretches import Stretch
from cohabit.app.advise.today import MOST_OFF, check, waits_of
from cohabit.app.scenario.reading import read_scenario
from cohabit.app.scenario.slurm_conf import read_conf, scenario_of, written
from cohabit.app.simulate import simulation
from cohabit.model.units import SECOND
from cohabit.trace import sacct
from cohabit.trace.catalogue import write_trace
from cohabit.trace.records import with_cancelled
from tests.backend.slurm.steering import jobs_of, submit, until
from tests.support.slurm_cluster import missing, running_slurm

JOBS, LENGTHS_S, SIZES = 40, (10, 40), (7, 14, 14, 28, 56)
HEADER = "JobID|User|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|SubmitLine\n"


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.cluster
def test_its_own_waits_come_out(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    chance, lines, rows = random.Random(3), {}, [HEADER]
    with running_slurm(tmp_path / "slurm", nodes=4, cores=28, scheduler=",bf_interval=5,bf_resolution=5") as slurm:
        for number in range(JOBS):
            size, length, extra = chance.choice(SIZES), chance.randint(*LENGTHS_S), ""
            if number and number % 10 == 0:
                extra = f"--dependency=afterany:{list(lines)[-3]}"
            if number % 13 == 5:
                extra = "--begin=now+30"
            options = [f"-n{size}", "--time=1", *([extra] if extra else [])]
            name = submit(slurm, tmp_path, length, *options)
            lines[name] = size, f"sbatch {' '.join(options)} job.sh"
            time.sleep(0.7)
        cancelled = list(lines)[-2]
        slurm.run("scancel", cancelled)
        until(lambda: {one.state for one in jobs_of(slurm).values()} <= {"COMPLETED", "CANCELLED"}, 600)
        jobs = jobs_of(slurm)
        for name, (size, line) in lines.items():
            job = jobs[name]
            begun = job.start_s if name != cancelled else 0
            at = (job.submit_s, job.eligible_s or job.submit_s, begun, job.end_s)
            state = "CANCELLED by 0" if name == cancelled else "COMPLETED"
            run_s = int(job.end_s - job.start_s) if begun else 0
            texts = [str(int(one)) if one else "None" for one in at]
            rows.append("|".join([name, "root", "all", state, *texts, str(run_s), "1", str(size), line]) + "\n")
        conf = read_conf(slurm.conf)
    log = sacct.parse("".join(rows))
    write_trace(log, tmp_path / "jobs.csv")
    tables, left_out = scenario_of(conf, "jobs.csv")
    (tmp_path / "site.toml").write_text(written(tables, left_out, "slurm.conf"))
    scenario = read_scenario(tmp_path / "site.toml")
    assert (scenario.policy.bf_interval_s, scenario.policy.placement) == (5.0, "share")
    found = {}
    for name in ("site", "cs", "ce-easy"):
        policy = scenario.policy if name == "site" else type(scenario.policy)(name)
        told = type(scenario)(cluster=scenario.cluster, jobs=scenario.jobs, policy=policy, world=scenario.world)
        table, _ = simulation.run(simulation.prepare(told))
        stretch = Stretch(with_cancelled(table.workload), int(table.workload.submit_us.min()))
        found[name] = check([waits_of(stretch, table)])
    sys.stdout.write("".join(f"\n{name}: {told}" for name, told in found.items()) + "\n")
    assert found["site"]["jobs"] >= JOBS - 2
    assert abs(found["site"]["off_pct"]) < 100 * MOST_OFF
    assert found["site"]["log_wait_s"] * SECOND > 10 * SECOND, "jobs waited"
