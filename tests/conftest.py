"""How Hypothesis plays in all tests: by reasons, not by luck.

Whether a change may land must not depend on which examples were drawn today, nor on how busy the machine was: the same
examples every time, and no opinion about the clock. COHABIT_EXPLORE=1 draws others (pytest --hypothesis-seed=N repeats
them): for whoever looks for new faults.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "cohabit", deadline=None, derandomize=not os.environ.get("COHABIT_EXPLORE"), print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example,
    ],
)  # fmt: skip
settings.load_profile("cohabit")
