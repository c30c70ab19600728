"""An order rewritten for one job scores as numpy does; a function that cannot be rewritten stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.core.columns import ELIGIBLE, columns_of
from cohabit.orders.one_job import for_one_job
from cohabit.policy.registry import make_order
from cohabit.source_files import load_source
from tests.breadth import examples
from tests.property.test_orders import by_machine_code, random_jobs

HEADER = "import numpy as np\nCHANGING = True\nHOUR, WEIGHT, TABLE = 3_600_000_000, 0.3, np.arange(99.0)\n"
ALIKE = {  # each job by itself
    "wait": "return (jobs.submit_us[rows] - now_us) / jobs.limit_us[rows]",  # some ask for no time at all
    "powers": "w = (now_us - jobs.submit_us[rows]) / 1e6\n    return -(w ** 3) + w ** 0.5 - jobs.cores[rows] ** 2",
    "whole": "w = now_us - jobs.submit_us[rows]\n    return w // HOUR * 7 - w % 1000 + w // jobs.limit_us[rows]",
    "truths": "n = jobs.nodes[rows]\n    return ((n > 1) + (n > 2)) * 5 + ~(n == 2) * WEIGHT - ((n < 9) & (n != 1))",
    "where": "l = jobs.limit_us[rows]\n    return np.where(l > 100, l, 1.5) * np.where(jobs.qos[rows] > 50, 2, -3)",
    "users": "u = jobs.user[rows]\n    return np.exp2(-jobs.usage_share[u] * (u >= 0)) + jobs.usage[jobs.user[rows]]",
    "functions": "return np.log2(np.maximum(jobs.cores[rows], 2)) - np.sqrt(jobs.limit_us[rows].astype(float)) * np.pi",
    "numbers": "h = now_us / (2 * HOUR)\n    if h > 3 and WEIGHT < 1:\n        return jobs.seq[rows] * h\n"
    "    return -h - jobs.seq[rows] * 1.0",
}
TOGETHER = {  # jobs depend on each other, on which are asked about, or on what only arrays have
    "share": "n = jobs.nodes[rows]\n    return n / n.sum()",
    "rank": "return np.argsort(jobs.limit_us[rows])",
    "ones": "return jobs.limit_us[rows] * np.ones(len(rows))",
    "all": "return jobs.limit_us[rows] - jobs.limit_us.max()",
    "mask": "l = jobs.limit_us[rows] * 1.0\n    l[l > 9] = 9\n    return l",
    "in_place": "l = jobs.limit_us[rows] * 1.0\n    l *= 2\n    return l + jobs.limit_us[rows]",
    "table": "return TABLE[jobs.qos[rows]]",
    "cumulated": "return np.add.accumulate(jobs.nodes[rows])",
    "rows": "return jobs.limit_us[rows] + rows",
    "renamed": "rows = rows[::-1]\n    return jobs.limit_us[rows]",
    "chance": "return jobs.limit_us[rows] + np.random.random()",
    "loop": "t = jobs.limit_us[rows] * 0\n    for p in range(3):\n        t = t + p\n    return t",
    "other_users": "u = jobs.user[rows] + 1\n    return jobs.usage[u - 1]",
    "one_number": "return now_us * 1.0",
}


def order_file(folder: Path, name: str, body: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(f"{HEADER}\n\ndef scores(jobs, rows, now_us):\n    {body}\n")
    return str(path)


@pytest.mark.parametrize("name", ALIKE)
def test_scores_are_those_of_numpy(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = order_file(tmp_path_factory.mktemp("orders"), name, ALIKE[name])
    assert for_one_job(load_source(path).scores, "score_one") is not None
    order = make_order(path, {}, in_passes=True)
    assert order.entry is not None

    @settings(max_examples=examples(40), deadline=None)
    @given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 9))
    def check(seed: int, count: int, users: int) -> None:
        jobs, usage, rows = random_jobs(seed, count, users)
        now_us = int(jobs[ELIGIBLE].max()) + seed % 1000
        with np.errstate(all="ignore"):
            readable = np.asarray(replace(order, entry=None).scores(columns_of(jobs, usage), rows, now_us), float)
        machine = by_machine_code(order, jobs, usage, rows, now_us)
        np.testing.assert_allclose(machine, readable, rtol=1e-15, atol=0)

    check()


@pytest.mark.parametrize("name", TOGETHER)
def test_what_is_no_matter_of_one_job_stays_as_it_is(name: str, tmp_path: Path) -> None:
    assert for_one_job(load_source(order_file(tmp_path, name, TOGETHER[name])).scores, "score_one") is None


@pytest.mark.parametrize("name", ["wfp", "unicef", "multifactor"])
def test_built_in_orders_that_change_are_rewritten(name: str) -> None:
    assert for_one_job(make_order(name, {}, in_passes=False).function, "score_one") is not None


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 1.0, 0.0, 1.7, 3.0])
def test_an_exponent_that_is_a_parameter_is_taken_as_numpy_takes_it(exponent: float) -> None:
    """numpy multiplies, takes a root or divides where others ask for a power; one result in a thousand tells."""
    order = make_order("wfp", {"exponent": exponent, "size_exponent": 2.0}, in_passes=True)
    assert order.entry is not None
    jobs, usage, rows = random_jobs(7, 20_000, 3)
    now_us = int(jobs[ELIGIBLE].max()) + 10**7
    with np.errstate(all="ignore"):
        readable = np.asarray(replace(order, entry=None).scores(columns_of(jobs, usage), rows, now_us), float)
    np.testing.assert_allclose(by_machine_code(order, jobs, usage, rows, now_us), readable, rtol=1e-15, atol=0)
