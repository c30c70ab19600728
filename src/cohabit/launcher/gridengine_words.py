"""The calls of Grid Engine's commands that the launcher permits: exactly those that backend/gridengine/commands.py and
submitting.py build. Jobs are named by number, changes are those of steering, and no option comes from a request."""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.launcher.requests import ACCOUNT, ANY, MARK, MATES, NUMBER, check_any, has_form, not_allowed

PROGRAMS = ("qstat", "qhost", "qacct", "qconf", "qalter", "qmod", "qdel", "qsub")
SUBMITS = "qsub"
_JOB = rf"{NUMBER}(\.{NUMBER})?"
_OBJECT = r"[A-Za-z0-9_*@][A-Za-z0-9._*@:+-]{0,255}"  # a queue, host, parallel or checkpointing environment
_OBJECTS = rf"{_OBJECT}(,{_OBJECT})*"
_REQUESTS = r"[A-Za-z0-9_.]{1,255}=[^\n]*"
_NOTE = rf"(cohabit={MARK}|cohabit_hold=s|cohabit_asked=(exclusive|shared)|cohabit_queue={_OBJECT})"
_FORMS = (
    ("qstat", "-xml", "-j", rf"\*|{_JOB}"),
    ("qstat", "-xml", "-u", r"\*", "-g", "t"),
    ("qhost", "-q", "-xml"),
    ("qconf", "-s[peq]", _OBJECT),
    ("qconf", "-sc|-help"),
    ("qacct", "-j", _JOB),
    ("qalter", "-h", "[suSU]", _JOB),
    ("qmod", "-sj", _JOB),
    ("qdel", _JOB),
)
_CHANGES = {"-q": _OBJECTS, "-l": _REQUESTS, "-ac": f"{_NOTE}(,{_NOTE})*"}
_FIRST = ("qsub", "-terse", "-C", "", "-S", "/bin/sh", "-h")
_OPTIONS = {
    "-wd": ANY, "-ac": f"cohabit={MARK}(,mates={MATES})?", "-r": "y|n", "-ckpt": _OBJECT,
    "-N": "[A-Za-z._+-][A-Za-z0-9._+-]*", "-P": ACCOUNT,
    "-q": ANY, "-pe": _OBJECT, "-l": _REQUESTS, "-o": ANY, "-e": ANY, "-j": "y",
    "-v": r"COHABIT_THRESHOLD_PATIENCE_S=[0-9]{1,9}(\.[0-9]{1,9})?", "-hold_jid": f"{_JOB}(,{_JOB})*",
    "-t": f"{NUMBER}-{NUMBER}", "-tc": NUMBER,
}  # fmt: skip


def check(words: Sequence[str], given: str) -> None:
    """Refuse calls that are not on the list."""
    if given:
        raise not_allowed([*words, "with input"])
    if words[0] == "qalter" and words[1:2] != ["-h"]:
        if len(words) < 4 or not has_form(words[-1:], [_JOB]):
            raise not_allowed(words)
        _check_pairs(words[1:-1], _CHANGES, words)
    else:
        check_any(words, _FORMS)


def check_submission(words: Sequence[str]) -> None:
    """Check a submission: held, with options of a job of ours; the script comes as input, no line of it is an
    option."""
    if not has_form(words[: len(_FIRST)], _FIRST):
        raise not_allowed(words)
    rest = list(words[len(_FIRST) :])
    if "-pe" in rest[::2]:  # the only option with two values
        at = rest.index("-pe")
        if not has_form(rest[at + 2 : at + 3], [NUMBER]):
            raise not_allowed(words)
        del rest[at + 2]
    _check_pairs(rest, _OPTIONS, words)


def _check_pairs(words: Sequence[str], allowed: dict[str, str], call: Sequence[str]) -> None:
    """Check OPTION VALUE pairs, each option at most once; a value that begins like an option would be one."""
    options = list(words[::2])
    if len(words) % 2 or len(set(options)) < len(options):
        raise not_allowed(call)
    for option, value in zip(options, words[1::2], strict=True):
        if option not in allowed or value.startswith("-") or not has_form([value], [allowed[option]]):
            raise not_allowed(call)
