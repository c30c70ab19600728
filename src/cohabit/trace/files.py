"""Opening and replacing trace files: compression is detected by content, every error is one sentence.

Readers get bytes or text from here and never call open() themselves; writers get a temporary file that
replaces the target only when it is complete, so no half-written trace is ever left behind.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

import cohabit.whole_files as whole_files
from cohabit.model.errors import InputError

BLOCK_BYTES = 8 * 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
UTF8_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_trace(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a plain, gzip or xz file; any error of the disk or decompression becomes InputError."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(len(XZ_MAGIC))
            raw.seek(0)
            if magic.startswith(GZIP_MAGIC):
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast(IO[bytes], unpacked)
            elif magic == XZ_MAGIC:
                with lzma.LZMAFile(raw) as unsqueezed:
                    yield cast(IO[bytes], unsqueezed)
            else:
                yield raw
    except FileNotFoundError:
        raise InputError("no such file", str(path), "check the name") from None
    except IsADirectoryError:
        raise InputError("is a folder, not a file", str(path), "name one file in it") from None
    except EOFError:
        raise InputError("the compressed file is cut short", str(path), "copy or download it again") from None
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as problem:
        raise InputError(f"the compressed file is damaged ({problem})", str(path), "copy it again") from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(f"cannot be read ({reason})", str(path), "check the permissions") from None


def line_blocks(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Blocks of whole lines, without copies; only the last block may end without a newline.

    Each block is a view of one reused buffer: it is valid until the next block is read.
    """
    buffer = bytearray(BLOCK_BYTES)
    window = memoryview(buffer)
    kept = 0
    with open_trace(path) as stream:
        ended = False
        while not ended:
            filled = kept
            while filled < BLOCK_BYTES:
                got = cast(io.BufferedIOBase, stream).readinto(window[filled:])
                if not got:
                    ended = True
                    break
                filled += got
            cut = buffer.rfind(b"\n", 0, filled) + 1
            if cut == 0 and not ended:
                raise InputError("has a line of more than 8 MiB", str(path), "this is not a text trace")
            if cut:
                yield np.frombuffer(buffer, np.uint8, cut)
            kept = filled - cut
            window[:kept] = bytes(window[cut:filled])
        if kept:
            yield np.frombuffer(buffer, np.uint8, kept)


def read_text(path: Path) -> str:
    """A whole small file as text, without a byte-order mark; bytes that are not UTF-8 are an InputError."""
    with open_trace(path) as stream:
        content = stream.read()
    try:
        return content.removeprefix(UTF8_MARK).decode("utf-8")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise InputError("is not UTF-8 text", f"{path}, line {line}", "convert it with iconv -t UTF-8") from None


def json_object(
    text: str, where: str, example: str, parse_constant: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """The JSON object of a file; a key that comes twice is refused, because one of the two would be lost."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise InputError(f"the key {key!r} comes twice in one object", where, "keep one of them")
        return dict(pairs)

    try:
        document = json.loads(text, parse_constant=parse_constant, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON ({error.msg})", f"{where}, line {error.lineno}", f"write {example}") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise InputError(f"cannot be read as JSON ({error})", where, f"write {example}") from None
    if not isinstance(document, dict):
        raise InputError("is not a JSON object", where, f"write {example}")
    return document


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends well; .gz and .xz are compressed."""
    with whole_files.replacing(path) as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif path.suffix == ".xz":
            with lzma.LZMAFile(raw, "wb") as squeezed:
                yield cast(IO[bytes], squeezed)
        else:
            yield raw


def readable(rows: Iterator[list[str]], where: str) -> Iterator[list[str]]:
    """The rows of a CSV reader; a row it cannot read (a cell that is too long) is a one-sentence error."""
    try:
        yield from rows
    except csv.Error as problem:
        raise InputError(f"is not a table that can be read ({problem})", where, "check that it is a CSV file") from None
