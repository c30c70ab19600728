"""An order that declares FALLING and does not fall is refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.model.errors import InputError
from cohabit.policy.registry import make_order

FILE = "import numpy as np\nCHANGING = True\nFALLING = True\n\n\ndef scores(jobs, rows, now_us):\n    {body}\n"
WAITED = "(now_us - jobs.submit_us[rows])"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"return {WAITED} / 1e6", "rises from"),
        (f"return -{WAITED} % 7_000_000", "rises from"),
        (f"return -{WAITED} / jobs.limit_us[rows].max()", "depends on the other jobs"),
        (f"return -{WAITED} - jobs.usage_share[jobs.user[rows]] * 1e9", "share of usage shrinks"),
        (f"return -{WAITED} - jobs.usage[jobs.user[rows]]", "usage grows"),
    ],
)
def test_a_lie_is_refused(body: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lie.py"
    path.write_text(FILE.format(body=body))
    with pytest.raises(InputError, match=f"declares FALLING, but .*{said}.*remove FALLING"):
        make_order(str(path), {}, in_passes=True)


@pytest.mark.parametrize("body", [f"return -{WAITED} ** 0.5", f"return jobs.usage_share[jobs.user[rows]] - {WAITED}"])
def test_the_truth_is_taken(body: str, tmp_path: Path) -> None:
    path = tmp_path / "true.py"
    path.write_text(FILE.format(body=body))
    assert make_order(str(path), {}, in_passes=True).falling
