"""Which windows keep a waiting job off nodes that it could use otherwise, in words."""

from __future__ import annotations

from cohabit.core.view import View
from cohabit.core.windows import first_of, in_words
from cohabit.model.cluster import Window
from cohabit.model.node_names import nodes_text
from cohabit.model.units import span

MOST_NAMED = 3  # windows in a sentence


def why_closed(view: View, row: int) -> str:
    """Return the windows that the job would run into, by its limit, on nodes it may use; empty if there are none."""
    kinds, until_us = view.kinds, view.now_us + max(view.limit_us(row), 1)
    usable = [kind for kind in range(kinds.count) if view.usable(row)[kind]]
    met = {one for kind in usable for one in kinds.windows_of[kind] if first_of([one], view.now_us, until_us)}
    spans = sorted({(one.begin_us, one.end_us, one.name) for one in met})
    told = [_told(view, [one for one in kinds.windows if (one.begin_us, one.end_us, one.name) == key]) for key in spans]
    more = len(told) - MOST_NAMED
    return "; ".join(told[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def open_nodes(view: View, row: int) -> int:
    """Return how many idle nodes stay open to the job for its whole requested time."""
    kinds, until_us = view.kinds, view.now_us + max(view.limit_us(row), 1)
    free = view.idle_by_kind()
    return sum(
        int(free[kind])
        for kind in range(kinds.count)
        if view.usable(row)[kind] and first_of(kinds.windows_of[kind], view.now_us, until_us) is None
    )


def _told(view: View, parts: list[Window]) -> str:
    """Say what the parts of one window close, and when."""
    window, now_us = parts[0], view.now_us
    ranges = tuple((one.first, one.count) for one in parts)
    nodes = "node" if sum(count for _, count in ranges) == 1 else "nodes"
    text = f"{in_words(window)} closes {nodes} {nodes_text(ranges, view.cluster.names)} "
    if window.begin_us > now_us:
        return text + f"in {span(window.begin_us - now_us)} for {span(window.end_us - window.begin_us)}"
    return text + f"for another {span(window.end_us - now_us)}"
