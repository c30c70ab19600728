"""Check that the words of a call have an allowed form: shared by the modules of both managers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cohabit.launcher.requests import Refused

ANY = r"(?s:.*)"  # option value of a command that runs as the owner of a job
NUMBER = r"[0-9]{1,18}"
GROUP = r"[A-Za-z0-9._:+-]{1,64}"  # of jobs with mates
MARK = (  # what Cohabit records with a job (backend/steered/marks.py)
    rf"cohabit:(held(:open)?|back|run:{NUMBER}:{NUMBER}-{NUMBER}:{NUMBER}:{NUMBER}(:whole|:shared)?)(@{GROUP})?"
)


def has_form(words: Sequence[str], form: Sequence[str]) -> bool:
    """Match word by word, each against its pattern."""
    return len(words) == len(form) and all(
        re.fullmatch(one, word) for one, word in zip(form, words, strict=True)
    )  # fmt: skip


def check_any(words: Sequence[str], forms: Sequence[Sequence[str]]) -> None:
    """Refuse words that have none of these forms."""
    if not any(has_form(words, form) for form in forms):
        raise not_allowed(words)


def check_assignments(words: Sequence[str], allowed: Mapping[str, str | None], call: Sequence[str]) -> None:
    """Check KEY=VALUE words, each key from this list and at most once; None: the key has no value."""
    seen = set()
    for word in words:
        key, sign, value = word.partition("=")
        if key in seen or key not in allowed:
            raise not_allowed(call)
        seen.add(key)
        form = allowed[key]
        if (form is None) is bool(sign) or (form is not None and not re.fullmatch(form, value)):
            raise not_allowed(call)


def not_allowed(words: Sequence[str]) -> Refused:
    """Return the refusal of a call."""
    return Refused(f"this call is not on the list of what is run: {' '.join(words)[:80]!r}")
