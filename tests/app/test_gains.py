"""Which jobs gain by another policy and which pay: by hand."""

from __future__ import annotations

import numpy as np

from cohabit.app.advise.gains import MOST_USERS, OTHERS, gains, in_words


def test_groups_by_size_and_user_by_hand() -> None:
    cores = np.array([1.0, 4.0, 8.0, 16.0, 40.0, 8.0])  # of nodes with eight
    users = ["ada", "ada", "grace", "grace", "edsger", ""]
    before, after = np.array([100.0, 100, 100, 200, 400, 50]), np.array([50.0, 70, 100, 220, 480, np.nan])
    found = gains(cores, 8, users, before, after)
    sizes = [(one["group"], one["jobs"], round(one["change_pct"])) for one in found["by_size"]]
    assert sizes == [("part of a node", 2, -40), ("a node", 1, 0), ("up to 4 nodes", 1, 10), ("up to 16 nodes", 1, 20)]
    by_user = [(one["group"], one["jobs"], round(one["change_pct"])) for one in found["by_user"]]
    assert by_user == [("ada", 2, -40), ("grace", 2, 7), ("edsger", 1, 20)]
    assert in_words(found) == (
        "Mean turnaround longer than today, by size of job: up to 4 nodes (+10 %), up to 16 nodes (+20 %). "
        "Mean turnaround longer than today, by user: grace (+7 %), edsger (+20 %)."
    )


def test_where_no_group_pays_that_is_said() -> None:
    found = gains(np.array([1.0]), 8, [""], np.array([10.0]), np.array([5.0]))
    assert found["by_user"] == []  # no user is known
    assert in_words(found) == "Mean turnaround longer than today, by size of job: none."
    assert in_words({"by_size": [], "by_user": []}) == ""


def test_users_with_few_jobs_are_one_group() -> None:
    users = [f"u{number}" for number in range(15) for _ in range(15 - number)]
    same = np.ones(len(users))
    found = gains(same, 1, users, same, same)["by_user"]
    assert [one["group"] for one in found] == [*(f"u{number}" for number in range(MOST_USERS)), OTHERS]
    assert sum(one["jobs"] for one in found) == len(users)
