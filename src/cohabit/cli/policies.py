"""`cohabit policies`: every policy name, one line each, with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cohabit.cli.console import show_json, table
from cohabit.cli.declaring import verb
from cohabit.cli.options import AsJson


@verb("policies", "List every policy and where it is from.", "cohabit policies --json")
def policies(as_json: AsJson = False) -> None:
    """List orders, kinds of backfilling, placements and bundles."""
    from cohabit.policy.registry import BACKFILLS, BUNDLES, GATES, ORDERS, PARTITIONS, PLACEMENTS

    kinds: dict[str, Mapping[str, Any]] = {
        "order": ORDERS,
        "backfill": BACKFILLS,
        "placement": PLACEMENTS,
        "partition": PARTITIONS,
        "gate": GATES,
        "policy": {name: entry for name, (_, entry) in BUNDLES.items()},
    }
    document = {}
    for kind, known in kinds.items():
        document[kind] = {name: {"summary": one.summary, "source": one.source} for name, one in known.items()}
        if not as_json:
            rows = [[name, one.summary, one.source] for name, one in known.items()]
            table(f"--{kind}", ["name", "what it does", "from"], rows)
    if as_json:
        show_json(document)
