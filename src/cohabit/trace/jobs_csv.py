"""The project's own job table, jobs.csv: names, shares, mates and dependencies that SWF has no place for.

    job_id,program,processes,submit_s[,run_s][,limit_s][,alpha][,user][,memory_mb][,mate][,group]
    [,skip_threshold][,workload_type][,after][,partition][,movable][,account][,qos][,wait_s][,begin_after_s]
    [,cancel_after_s][,failed][,array][,at_most]

Columns may come in any order; a column it does not know is an error, never ignored. An empty `run_s` leaves
`run_us` at -1: the run time comes from the program catalogue later, and so does a missing limit. `memory_mb`
(MiB) is for the whole job and is stored per process. Rows stay in file order.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.job import ACCOUNT_WORDS, WORKLOAD_TYPES, is_account
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Floats, Ints, Workload
from cohabit.trace.files import read_text, replacing
from cohabit.trace.names import Codes
from cohabit.trace.records import BEGIN_AFTER, CANCEL_AFTER, RUN_FROM_CATALOGUE_US, TERMS, WAITED, with_cancelled
from cohabit.trace.seconds_column import microseconds_of, seconds_text

REQUIRED = ("job_id", "program", "processes", "submit_s")
TEXT_EXTRAS = ("mate", "group", "workload_type", "account", "qos", "array")
TIME_EXTRAS = {"wait_s": WAITED, "begin_after_s": BEGIN_AFTER, "cancel_after_s": CANCEL_AFTER}
OPTIONAL = (
    "run_s", "limit_s", "alpha", "user", "memory_mb", *TEXT_EXTRAS, "skip_threshold", "after", "partition", "movable",
    *TIME_EXTRAS, "failed", "at_most",
)  # fmt: skip
NO_SKIP_THRESHOLD = -1
MEBIBYTE = 2**20
_SEPARATORS = re.compile(r"[;\s]+")


def read_jobs_csv(path: Path) -> Workload:
    """Read a job table; anything wrong raises InputError naming the file, line and column."""
    return _Table(read_text(path), str(path)).workload()


class _Table:
    """The cells of one file as text columns, and the way back from a row to its line for messages."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        if not text.strip():
            raise InputError("has no jobs", source, f"a job table begins with {','.join(REQUIRED)}")
        header = [name.strip() for name in next(csv.reader(io.StringIO(text)), [])]
        _check_header(header, source)
        last_line = text[text.rfind("\n") + 1 :]
        if last_line and len(next(csv.reader([last_line]))) < len(header):
            where = f"{source}, line {text.count(chr(10)) + 1}"
            raise InputError("the last line is cut short", where, "the file is truncated: copy or make it again")
        try:
            frame = pl.read_csv(
                text.encode(),
                has_header=False,
                new_columns=header,
                infer_schema=False,
                schema_overrides=[pl.String] * len(header),
                raise_if_empty=False,
            )
        except pl.exceptions.PolarsError:
            raise self._ragged(len(header)) from None
        frame = frame.slice(1).with_columns(pl.all().str.strip_chars().replace("", None))
        self.frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
        if not len(self.frame):
            raise InputError("has no jobs", source, "a job is one line under the header")

    def workload(self) -> Workload:
        run_us = self._times("run_s", RUN_FROM_CATALOGUE_US)
        stated_us = self._times("limit_s", 0)
        processes = self._numbers("processes", pl.Int64, "a whole number")
        never_ran = (run_us < 0) & self._stated("run_s")
        rejection = np.where(never_ran, BAD_RUN, np.where(processes <= 0, BAD_SIZE, ACCEPTED))
        user, user_names = self._codes("user")
        program, program_names = self._codes("program")
        partition, partition_names = self._codes("partition")
        self._refuse("run_s", ~self._stated("run_s") & (program < 0), "is empty and so is program")
        ids = self._job_ids()
        after = self._after(ids)
        submit_us = self._times("submit_s", None)
        descents = int((submit_us[1:] < submit_us[:-1]).sum())
        table = Workload(
            job_id=_id_column(ids),
            submit_us=submit_us,
            run_us=run_us,
            limit_us=np.where(stated_us > 0, stated_us, run_us),
            processes=processes,
            user=user,
            program=program,
            rejection=rejection.astype(np.int8),
            user_names=user_names,
            program_names=program_names,
            memory_bytes=self._memory_bytes(processes),
            partition=partition if partition_names else None,
            partition_names=partition_names,
            after=after,
            extra=self._extra(),
            source=self.source,
            defects={"submit times earlier than on the line before": descents} if descents else {},
        )
        return with_cancelled(table)

    def _column(self, name: str) -> pl.Series:
        return self.frame[name] if name in self.frame.columns else pl.Series([None] * len(self.frame), dtype=pl.String)

    def _stated(self, name: str) -> NDArray[np.bool_]:
        return self._column(name).is_not_null().to_numpy()

    def _required(self, name: str) -> pl.Series:
        column = self._column(name)
        self._refuse(name, column.is_null().to_numpy(), "is empty")
        return column

    def _numbers(self, name: str, kind: type[pl.DataType], wanted: str) -> NDArray[Any]:
        column = self._required(name)
        numbers = column.cast(kind, strict=False)
        self._refuse(name, numbers.is_null().to_numpy(), f"is not {wanted}")
        return numbers.to_numpy(writable=True)

    def _times(self, name: str, default_us: int | None) -> Ints:
        column = self._column(name) if default_us is not None else self._required(name)
        times = microseconds_of(column)
        self._refuse(name, (times.is_null() & column.is_not_null()).to_numpy(), "is not a number of seconds")
        filled: Ints = (times if default_us is None else times.fill_null(default_us)).to_numpy(writable=True)
        return filled

    def _optional_floats(self, name: str, is_good: Callable[[Floats], NDArray[np.bool_]], wanted: str) -> Floats:
        column = self._column(name)
        values: Floats = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(writable=True)
        self._refuse(name, column.is_not_null().to_numpy() & ~is_good(values), f"is not {wanted}")
        return values

    def _codes(self, name: str) -> tuple[Codes, list[str]]:
        column = self._column(name)
        names = column.drop_nulls().unique().sort().to_list()
        codes = column.replace_strict(names, list(range(len(names))), default=-1, return_dtype=pl.Int32)
        return codes.fill_null(-1).to_numpy(writable=True), names

    def _memory_bytes(self, processes: Ints) -> Ints | None:
        if "memory_mb" not in self.frame.columns:
            return None
        per_job = self._optional_floats("memory_mb", lambda mb: (mb >= 0) & (mb < 2**40), "a size in MB")
        share = np.ceil(np.nan_to_num(per_job) * MEBIBYTE / np.maximum(processes, 1))
        return share.astype(np.int64)

    def _extra(self) -> dict[str, NDArray[Any]]:
        extra: dict[str, NDArray[Any]] = {}
        if "alpha" in self.frame.columns:
            extra["alpha"] = self._optional_floats("alpha", lambda a: (a > 0) & (a <= 1), "above 0 and at most 1")
        if "skip_threshold" in self.frame.columns:
            skips = self._optional_floats("skip_threshold", lambda n: (n >= 0) & (n == np.floor(n)), "a whole number")
            extra["skip_threshold"] = np.where(np.isnan(skips), NO_SKIP_THRESHOLD, skips).astype(np.int64)
        if "movable" in self.frame.columns:
            movable = self._optional_floats("movable", lambda flag: (flag == 0) | (flag == 1), "0 or 1")
            extra["movable"] = np.nan_to_num(movable).astype(np.int64)
        for column, name in TIME_EXTRAS.items():
            if column in self.frame.columns:
                extra[name] = self._times(column, -SECOND)
        if "failed" in self.frame.columns:
            failed = self._optional_floats("failed", lambda flag: (flag == 0) | (flag == 1), "0 or 1")
            extra["failed"] = np.nan_to_num(failed).astype(np.int64)
        if "at_most" in self.frame.columns:
            most = self._optional_floats("at_most", lambda n: (n >= 0) & (n == np.floor(n)), "a whole number")
            extra["at_most"] = np.nan_to_num(most).astype(np.int64)
        for name in TEXT_EXTRAS:
            if name in self.frame.columns:
                extra[name] = np.array(self.frame[name].fill_null("").to_list(), np.object_)
        if "workload_type" in extra:
            strange = np.array([name not in ("", *WORKLOAD_TYPES) for name in extra["workload_type"]])
            self._refuse("workload_type", strange, f"is none of {', '.join(WORKLOAD_TYPES)}")
        if "account" in extra:
            strange = np.array([bool(name) and not is_account(name) for name in extra["account"]])
            self._refuse("account", strange, f"is no account: one has {ACCOUNT_WORDS}")
        return extra

    def _job_ids(self) -> pl.Series:
        ids = self._required("job_id")
        self._refuse("job_id", ids.str.contains(_SEPARATORS.pattern).to_numpy(), "contains a space or ;")
        repeated = ~ids.is_first_distinct()
        if repeated.any():
            row = int(repeated.arg_true()[0])
            first = self._line(int((ids == ids[row]).arg_true()[0]))
            what = f"{ids[row]} is already used on line {first}"
            raise InputError(what, self._where(row, "job_id"), "ids are unique")
        return ids

    def _after(self, ids: pl.Series) -> list[tuple[str, ...]] | None:
        if "after" not in self.frame.columns:
            return None
        cells = self.frame["after"].fill_null("").to_list()
        after = [tuple(part for part in _SEPARATORS.split(cell) if part) for cell in cells]
        named = [tuple(map(without_term, jobs)) for jobs in after]
        check_dependencies(ids.to_list(), named, lambda row: self._where(row, "after"))
        return after

    def _refuse(self, name: str, bad: NDArray[np.bool_], what: str) -> None:
        if not bad.any():
            return
        row = int(np.argmax(bad))
        cell = self._column(name)[row]
        raise InputError(what if cell is None else f"{cell!r} {what}", self._where(row, name), "correct the cell")

    def _where(self, row: int, name: str) -> str:
        return f"{self.source}, line {self._line(row)}, {name}"

    def _line(self, row: int) -> int:
        reader = csv.reader(io.StringIO(self.text))
        jobs = (reader.line_num for cells in reader if any(cell.strip() for cell in cells))
        return next(islice(jobs, row + 1, None))  # the header is the first

    def _ragged(self, width: int) -> InputError:
        reader = csv.reader(io.StringIO(self.text))
        for cells in reader:
            if len(cells) > width:
                what = f"has {len(cells)} columns where the header has {width}"
                return InputError(what, f"{self.source}, line {reader.line_num}", 'put "..." around text with commas')
        return InputError("is not a CSV table", self.source, "the first line names the columns, separated by commas")


def without_term(entry: str) -> str:
    """Return the job that an entry of `after` names."""
    return next((entry.removeprefix(term) for term in TERMS if entry.startswith(term)), entry)


def check_dependencies(ids: Sequence[str], after: Sequence[tuple[str, ...]], where: Callable[[int], str]) -> None:
    """Raise InputError for the first unknown job or circle; `where` names the place of a row for people."""
    row_of = {job: row for row, job in enumerate(ids)}
    blockers = {row: len(set(jobs)) for row, jobs in enumerate(after) if jobs}
    followers: dict[int, list[int]] = {}
    for row in blockers:
        for job in set(after[row]):
            if job not in row_of:
                raise InputError(f"job {job} does not exist", where(row), "name a job_id of this file")
            followers.setdefault(row_of[job], []).append(row)
    free = [row for row in followers if row not in blockers]
    while free:
        for row in followers.get(free.pop(), ()):
            blockers[row] -= 1
            if not blockers[row]:
                del blockers[row]
                free.append(row)
    if blockers:
        row = min(blockers)
        raise InputError(f"job {ids[row]} depends on itself (circular)", where(row), "remove one of the dependencies")


def _id_column(ids: pl.Series) -> NDArray[Any]:
    """int64 where every id is a plain number that is written back the same, else the texts themselves."""
    numbers = ids.cast(pl.Int64, strict=False)
    if bool((numbers.cast(pl.String) == ids).fill_null(False).all()):
        return numbers.to_numpy(writable=True)
    return np.array(ids.to_list(), np.object_)


def _check_header(header: Sequence[str], source: str) -> None:
    where = f"{source}, line 1"
    for name in header:
        if name not in REQUIRED + OPTIONAL:
            near = difflib.get_close_matches(name, REQUIRED + OPTIONAL, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(REQUIRED + OPTIONAL)}"
            raise InputError(f"unknown column {name!r}", where, advice)
        if header.count(name) > 1:
            raise InputError(f"column {name} comes twice", where, "keep one of them")
    for name in REQUIRED:
        if name not in header:
            raise InputError(f"has no column {name}", where, f"a job table needs {', '.join(REQUIRED)}")


def write_jobs_csv(workload: Workload, path: Path) -> None:
    """Write every column a job table can carry; the file appears complete or not at all."""
    from_catalogue = (workload.run_us == RUN_FROM_CATALOGUE_US) & (workload.rejection != BAD_RUN)
    no_limit = workload.limit_us <= 0
    columns: dict[str, pl.Series] = {
        "job_id": pl.Series(workload.job_id.tolist()),
        "program": _name_cells(workload.program, workload.program_names),
        "processes": pl.Series(workload.processes),
        "submit_s": seconds_text(workload.submit_us),
        "run_s": _blank(seconds_text(np.where(from_catalogue, 0, workload.run_us)), from_catalogue),
        "limit_s": _blank(seconds_text(np.where(no_limit, 0, workload.limit_us)), no_limit),
        "user": _name_cells(workload.user, workload.user_names),
    }
    if workload.memory_bytes is not None:
        per_job = workload.memory_bytes * np.maximum(workload.processes, 1) / MEBIBYTE
        columns["memory_mb"] = _blank(pl.Series(per_job), workload.memory_bytes == 0)
    if workload.partition is not None:
        columns["partition"] = _name_cells(workload.partition, workload.partition_names)
    if "alpha" in workload.extra:
        columns["alpha"] = pl.Series(workload.extra["alpha"]).fill_nan(None)
    if "skip_threshold" in workload.extra:
        skips = workload.extra["skip_threshold"]
        columns["skip_threshold"] = _blank(pl.Series(skips), skips == NO_SKIP_THRESHOLD)
    if "movable" in workload.extra:
        columns["movable"] = pl.Series(workload.extra["movable"])
    for column, name in TIME_EXTRAS.items():
        if name in workload.extra:
            times_us = workload.extra[name]
            columns[column] = _blank(seconds_text(np.maximum(times_us, 0)), times_us < 0)
    for name in ("failed", "at_most"):
        if name in workload.extra:
            columns[name] = pl.Series(workload.extra[name])
    for name in TEXT_EXTRAS:
        if name in workload.extra:
            columns[name] = pl.Series(workload.extra[name].tolist(), dtype=pl.String)
    if workload.after is not None:
        columns["after"] = pl.Series([";".join(jobs) for jobs in workload.after], dtype=pl.String)
    with replacing(path) as target:
        pl.DataFrame(columns).write_csv(target)


def _name_cells(codes: Codes, names: Sequence[str]) -> pl.Series:
    table = np.array([*names, ""], np.object_)
    return pl.Series(table[codes].tolist(), dtype=pl.String)


def _blank(cells: pl.Series, where: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(where)).then(None).otherwise(cells)).to_series()
