"""The calls of Slurm's commands that the launcher permits: exactly those that backend/slurm/commands.py and
submitting.py build. Jobs are named by number, changes are those of steering, and no option comes from a request."""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.launcher.requests import ACCOUNT, ANY, MARK, MATES, NUMBER, check_any, check_assignments, not_allowed

PROGRAMS = ("squeue", "sacct", "scontrol", "scancel", "sbatch")
SUBMITS = "sbatch"
SEVERAL = ["scontrol", "--quiet"]  # calls of scontrol, one per line of its input
_JOB = rf"{NUMBER}(_{NUMBER})?"
_JOBS = rf"{_JOB}(,{_JOB})*"
_FORMS = (
    ("squeue", "--all", "--states=all", r"--json(=v[0-9.]{1,20})?"),
    ("squeue", "--all", "--states=all", "--array", "--noheader", "--format=%A"),
    ("sacct", "--parsable2", "--noheader", "--allocations", "--duplicates", "--format=JobID,State,ExitCode",
     f"--jobs={_JOBS}"),
    ("scontrol", "--all", "--details", "--oneliner", "show", "job"),
    ("scontrol", "--details", "--oneliner", "show", "job", _JOB),
    ("scontrol", "--all", "--oneliner", "show", "node|partition|reservation"),
    ("scontrol", "show", "config"),
    ("scontrol", "write", "batch_script", _JOB, "-"),
    ("scontrol", "release", _JOBS),
    ("scontrol", "uhold|requeuehold", _JOB),
    ("scancel", _JOB),
)  # fmt: skip
_NODE = r"[A-Za-z0-9._-]{1,255}"
_CHANGES: dict[str, str | None] = {
    "JobId": _JOBS, "ReqNodeList": rf"({_NODE}(,{_NODE})*)?", "NumNodes": f"{NUMBER}-{NUMBER}", "MinCPUsNode": NUMBER,
    "NumCPUs": NUMBER, "AdminComment": MARK, "StartTime": "now", "CoreSpec": r"0|\*", "OverSubscribe": "YES|NO",
    "TimeLimit": NUMBER,
}  # fmt: skip
_OPTIONS: dict[str, str | None] = {
    "--time": NUMBER, "--chdir": ANY, "--nodes": NUMBER, "--ntasks": NUMBER, "--cpus-per-task": NUMBER,
    "--exclusive": None, "--job-name": ANY, "--partition": ANY, "--account": ACCOUNT, "--output": ANY, "--error": ANY,
    "--comment": f"cohabit:mates={MATES}", "--mem-per-cpu": f"{NUMBER}M",
    "--dependency": f"(afterok|afterany)(:{_JOB})+", "--array": f"{NUMBER}-{NUMBER}(%{NUMBER})?", "--requeue": None,
    "--no-requeue": None,
}  # fmt: skip


def check(words: Sequence[str], given: str) -> None:
    """Refuse calls that are not on the list."""
    if list(words) == SEVERAL:
        lines = given.splitlines()
        if not lines or not given.endswith("\n") or given.count("\n") != len(lines):
            raise not_allowed(words)
        for line in lines:
            _check_update(["scontrol", *line.split(" ")])
        return
    if given:
        raise not_allowed([*words, "with input"])
    if list(words[:2]) == ["scontrol", "update"]:
        _check_update(words)
    else:
        check_any(words, _FORMS)


def _check_update(words: Sequence[str]) -> None:
    """Check an update of jobs, which are named first: another first word could update nodes or partitions."""
    if list(words[:2]) != ["scontrol", "update"] or not words[2:] or not words[2].startswith("JobId="):
        raise not_allowed(words)
    check_assignments(words[2:], _CHANGES, words)


def check_submission(words: Sequence[str]) -> None:
    """Check a submission: held, with the options of a job of ours; the script comes as input."""
    if list(words[:3]) != ["sbatch", "--parsable", "--hold"]:
        raise not_allowed(words)
    check_assignments(words[3:], _OPTIONS, words)
