"""Short slices of the public traces: golden metrics, and start times job by job as in the independent reference."""

from __future__ import annotations

import json

import numpy as np
import pytest
from golden import GOLDEN, KEPT, POLICIES, SLICES, jobs_of, kept, run_slice

from cohabit.model.records import NEVER, RunTable
from tests.reference import fast_easy, textbook

SECOND = 1_000_000
STORED = json.loads(GOLDEN.read_text())["slices"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SLICES)
def test_golden_metrics(name: str, policy: str) -> None:
    """See golden.py for the command that writes the numbers again."""
    assert kept(run_slice(name, policy), KEPT) == pytest.approx(STORED[name][policy], rel=1e-9)


def reference_jobs(name: str, count: int) -> list[textbook.Job]:
    jobs, cores = jobs_of(name), SLICES[name].cores
    sizes = -(-jobs.processes // cores)
    columns = (jobs.submit_us, jobs.run_us, jobs.limit_us, sizes)
    rows = zip(*(column[:count].tolist() for column in columns), strict=True)
    return [textbook.Job(number, *row) for number, row in enumerate(rows)]


def starts(table: RunTable) -> list[int | None]:
    return [None if start == NEVER else start for start in table.start_us.tolist()]


@pytest.mark.parametrize("name", SLICES)
def test_easy_starts_every_job_when_the_reference_does(name: str) -> None:
    nodes = SLICES[name].nodes
    found = starts(run_slice(name, "fcfs+easy"))
    if fast_easy.compiler() is not None:
        expected = fast_easy.fast_easy_starts(reference_jobs(name, len(found)), nodes, tick=SECOND)
        assert found == expected
        return
    few = 500  # without a C compiler; the first jobs do not know of those after them until they share the machine
    jobs = reference_jobs(name, few)
    expected = [result.start for result in textbook.simulate(jobs, nodes, tick=SECOND)]
    last_start = max(job.submit for job in jobs)
    early = [place for place, start in enumerate(expected) if start is None or start <= last_start]
    assert [found[place] for place in early] == [expected[place] for place in early]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SLICES)
def test_every_policy_agrees_with_the_textbook_on_the_first_jobs(name: str, policy: str) -> None:
    """The plain Python reference on 300 jobs, for the orders and kinds of backfilling the C version does not know."""
    from cohabit.app.scenario.tables import ClusterConfig, JobsConfig, PolicyConfig, Scenario
    from cohabit.app.simulate import simulation
    from cohabit.app.simulate.comparison import policy_from

    few = 300
    order, _, backfill = policy.partition("+")
    chosen = SLICES[name]
    scenario = Scenario(
        cluster=ClusterConfig(nodes=chosen.nodes, cores=chosen.cores), jobs=JobsConfig(trace=chosen.file),
        policy=policy_from(policy, PolicyConfig()),
    )  # fmt: skip
    workload = jobs_of(name).take(np.arange(few))
    if order == "wfp" and chosen.cores > 1:
        pytest.skip("the reference's WFP knows a job's nodes, ours its processes")
    table, _ = simulation.run(simulation.prepare(scenario, workload), record_nodes=False)
    expected = textbook.simulate(reference_jobs(name, few), chosen.nodes, order=order, backfill=backfill, tick=SECOND)
    assert starts(table) == [result.start for result in expected]
