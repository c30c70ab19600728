"""Every rule and every tolerated or refused defect of Standard Workload Format input."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Workload
from cohabit.trace import files
from cohabit.trace.swf import parse_header, read_swf

JOB = "1 10 5 100 4 -1 -1 8 200 -1 1 12 3 307 2 1 -1 -1\n"


def job(
    number: int = 1, submit: str = "0", run: str = "10", used: str = "4", asked: str = "4", limit: str = "60"
) -> str:
    return f"{number} {submit} -1 {run} {used} -1 -1 {asked} {limit} -1 1 7 -1 9 -1 -1 -1 -1\n"


def read(folder: Path, text: str | bytes, name: str = "t.swf") -> Workload:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_swf(path)


def refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text)
    sentence = str(caught.value)
    assert "t.swf" in sentence
    assert "\n" not in sentence
    return sentence


def test_a_job_and_its_header(tmp_path: Path) -> None:
    header = "; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 1,152\n; UnixStartTime: 835823160\n"
    jobs = read(tmp_path, header + JOB)
    assert jobs.max_nodes == 338
    assert jobs.max_procs == 1152
    assert jobs.header["UnixStartTime"] == "835823160"
    assert jobs.job_id.tolist() == [1]
    assert jobs.submit_us.tolist() == [10 * SECOND]
    assert jobs.run_us.tolist() == [100 * SECOND]
    assert jobs.limit_us.tolist() == [200 * SECOND]
    assert jobs.processes.tolist() == [8]
    assert (jobs.user_names, jobs.program_names, jobs.partition_names) == (["12"], ["307"], ["1"])
    assert jobs.user.tolist() == jobs.program.tolist() == [0]
    assert jobs.extra["queue"].tolist() == [2]
    assert jobs.defects == {}


def test_size_and_request_fall_back(tmp_path: Path) -> None:
    jobs = read(tmp_path, job(1, asked="-1", limit="-1") + job(2, used="9", asked="0", limit="0"))
    assert jobs.processes.tolist() == [4, 9]
    assert jobs.limit_us.tolist() == jobs.run_us.tolist()


def test_jobs_that_can_never_run_stay_with_their_reason(tmp_path: Path) -> None:
    jobs = read(tmp_path, job(1, run="-1") + job(2, used="0", asked="-1") + job(3, run="0"))
    assert jobs.rejection.tolist() == [BAD_RUN, BAD_SIZE, ACCEPTED]


def test_rows_stay_in_file_order_and_disorder_is_counted(tmp_path: Path) -> None:
    jobs = read(tmp_path, job(1, submit="20") + job(2, submit="5") + job(3, submit="5"))
    assert jobs.job_id.tolist() == [1, 2, 3]
    assert jobs.order().tolist() == [1, 2, 0]
    assert jobs.defects == {"submit times earlier than on the line before": 1}


def test_spaces_tabs_line_ends_blank_lines_and_comments(tmp_path: Path) -> None:
    tabbed = JOB.replace(" ", "\t \t").replace("\n", "\r\n")
    jobs = read(tmp_path, "\r\n  ; Note: hello\n\n" + tabbed + ";end\n  " + JOB.rstrip() + " ; why\n")
    assert len(jobs) == 2
    assert jobs.processes.tolist() == [8, 8]
    assert jobs.header["Note"] == "hello\nend"
    assert jobs.defects == {"job numbers used before": 1}


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert len(read(tmp_path, b"\xef\xbb\xbf" + JOB.encode())) == 1


def test_fractions_keep_microseconds(tmp_path: Path) -> None:
    jobs = read(
        tmp_path,
        job(1, submit="0.000001", run="142.00", limit="1e3") + job(2, submit="+1.2345678", run=".5", limit="2.5E-1"),
    )
    assert jobs.submit_us.tolist() == [1, 1_234_568]
    assert jobs.run_us.tolist() == [142 * SECOND, SECOND // 2]
    assert jobs.limit_us.tolist() == [1000 * SECOND, SECOND // 4]


def test_a_fractional_size_is_rounded_and_counted(tmp_path: Path) -> None:
    jobs = read(tmp_path, job(1, asked="3.7") + job(2, asked="4.0"))
    assert jobs.processes.tolist() == [4, 4]
    assert jobs.defects == {"fractions where a whole number belongs, rounded": 1}


def test_more_and_fewer_fields_are_counted(tmp_path: Path) -> None:
    jobs = read(
        tmp_path, JOB.rstrip() + " 0 x y\n" + "2 11 5 100 4 -1 -1 8 200\n" + "3 12 5 100 4 -1 -1 8 200 -1 1 5\n"
    )
    assert jobs.user.tolist() == [1, -1, 0]
    assert jobs.program.tolist() == [0, -1, -1]
    assert jobs.defects == {"lines with fewer than 18 fields": 2, "lines with more than 18 fields": 1}


def test_large_user_numbers_are_coded_too(tmp_path: Path) -> None:
    jobs = read(tmp_path, JOB.replace(" 12 ", " 70296325381051 ") + JOB.replace("1 10", "2 11"))
    assert jobs.user_names == ["12", "70296325381051"]
    assert jobs.user.tolist() == [1, 0]


@pytest.mark.parametrize(
    "bad", ["abc", "--1", "1.2.3", "1e", "-", "5x", ".", "nan", "0x10", "1e400", "99999999999999999999", "\0", "1,5"]
)
def test_what_is_not_a_number_is_named_by_line_and_field(tmp_path: Path, bad: str) -> None:
    sentence = refusal(tmp_path, "; c\n" + job(1) + job(2, run=bad))
    assert "line 3, field 4 (run time)" in sentence


def test_a_line_with_too_few_fields_is_refused(tmp_path: Path) -> None:
    assert "line 2: has 3 fields" in refusal(tmp_path, JOB + "1 2 3\n" + JOB)


@pytest.mark.parametrize("cut", range(2, len(JOB) - 3))
def test_a_file_cut_anywhere_in_its_last_line_is_refused(tmp_path: Path, cut: int) -> None:
    assert "line 2: the last line is cut short" in refusal(tmp_path, JOB + JOB[:cut])


def test_a_missing_last_newline_is_no_defect(tmp_path: Path) -> None:
    assert len(read(tmp_path, JOB + JOB.rstrip())) == 2
    assert len(read(tmp_path, "1 2 3 4 5 6 7 8 9 10 11\n2 2 3 4 5 6 7 8 9 10 11")) == 2


@pytest.mark.parametrize("text", ["", "\n\n", "; MaxNodes: 5\n", "; only a comment"])
def test_an_empty_trace_is_refused(tmp_path: Path, text: str) -> None:
    assert "has no jobs" in refusal(tmp_path, text)


def test_garbage_is_refused(tmp_path: Path) -> None:
    assert "line 1, field 1" in refusal(tmp_path, bytes(range(14, 256)) * 10 + b"\n")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compression_is_found_by_content(tmp_path: Path, pack) -> None:
    assert len(read(tmp_path, pack(JOB.encode() * 3))) == 3


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_cut_compressed_file_is_refused(tmp_path: Path, pack, kept: float) -> None:
    content = pack("".join(job(n, submit=str(n * n * 7919 % 100_003)) for n in range(1, 3000)).encode())
    assert "cut short" in refusal(tmp_path, content[: int(len(content) * kept)])


def test_a_damaged_compressed_file_is_refused(tmp_path: Path) -> None:
    content = bytearray(lzma.compress(JOB.encode() * 500))
    content[30] ^= 0xFF
    assert "damaged" in refusal(tmp_path, bytes(content))


def test_absent_file_folder_and_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_swf(tmp_path / "absent.swf")
    with pytest.raises(InputError, match="is a folder"):
        read_swf(tmp_path)
    locked = tmp_path / "locked.swf"
    locked.write_text(JOB)
    locked.chmod(0)
    if os.geteuid() != 0:
        with pytest.raises(InputError, match="cannot be read"):
            read_swf(locked)


def test_blocks_of_any_size_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "; MaxNodes: 9\n" + "".join(job(n, submit=f"{n * 1.5}") for n in range(1, 200))
    whole = read(tmp_path, text)
    for size in (120, 333, 4096):
        monkeypatch.setattr(files, "BLOCK_BYTES", size)
        parts = read(tmp_path, text)
        assert parts.submit_us.tolist() == whole.submit_us.tolist()
        assert parts.max_nodes == 9
    with pytest.raises(InputError, match="line 151, field 4"):
        read(tmp_path, text.replace("150 225.0 -1 10", "150 225.0 -1 oops"))
    monkeypatch.setattr(files, "BLOCK_BYTES", 20)
    with pytest.raises(InputError, match="not a text trace"):
        read(tmp_path, text)


def test_header_keys_may_repeat_and_addresses_are_no_keys() -> None:
    header = parse_header(["; Note: a", ";   http://x.org/", "; Note: b", "; Queue:  1 short  ", ";", "no key yet"][:5])
    assert header == {"Note": "a\nhttp://x.org/\nb", "Queue": "1 short"}
    assert parse_header(["; just words", "; submit = x"]) == {}


def test_every_field_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_text("1 10 5 100 4 99.5 64 8 200 128 1 12 3 307 2 1 77 30\n")
    jobs = read_swf(path, every_field=True)
    assert jobs.memory_bytes is not None
    assert jobs.memory_bytes.tolist() == [128 * 1024]
    kept = {name: column.tolist()[0] for name, column in jobs.extra.items()}
    assert kept == {
        "queue": 2, "swf_wait_us": 5 * SECOND, "swf_cpu_us": 99_500_000, "swf_used_memory_kb": 64, "swf_status": 1,
        "swf_group": 3, "swf_preceding_job": 77, "swf_think_us": 30 * SECOND,
    }  # fmt: skip
