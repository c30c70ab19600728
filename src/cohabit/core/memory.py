"""Drafts of what policies remember: plain data, as checkpoints write it (dicts, lists, tuples, text and numbers).

`copy.deepcopy` also follows references that occur twice, which plain data has none of, and takes ten times as long.
"""

from __future__ import annotations

from typing import Any

NESTED = (dict, list, tuple)


def draft_of(memory: Any) -> Any:
    """Return a copy that can be changed without changing the memory."""
    if isinstance(memory, dict):
        return {key: draft_of(one) if isinstance(one, NESTED) else one for key, one in memory.items()}
    if isinstance(memory, list):
        return [draft_of(one) if isinstance(one, NESTED) else one for one in memory]
    return tuple(draft_of(one) for one in memory) if isinstance(memory, tuple) else memory
