"""Who holds a job besides us, from Slurm's records. Pure.

Our holds are the owner's for Slurm (JobHeldUser), so an administrator's is seen (JobHeldAdmin). A hold by the owner of
a job that is held already changes nothing in Slurm: job_submit.lua writes a word into the comment.
"""

from __future__ import annotations

import re

from cohabit.backend.steered.shapes import BY_ADMINISTRATOR, BY_OWNER

WORD = "cohabit:hold"  # as in packaging/slurm/job_submit.lua
ADMINISTRATORS = "JobHeldAdmin"
_WORD = re.compile(rf"(?:^| ){WORD}(?= |$)")


def held_by(reason: str, comment: str) -> str:
    """Return who holds it; empty: its submission or we do."""
    if _WORD.search(comment):
        return BY_OWNER
    return BY_ADMINISTRATOR if reason == ADMINISTRATORS else ""


def without_word(comment: str) -> str:
    """Return the owner's own comment."""
    return _WORD.sub("", comment).strip() if WORD in comment else comment
