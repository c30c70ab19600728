"""Format a table as text: columns as wide as needed; if the terminal is too narrow, the last is wrapped first.

Written for tens of thousands of rows: a library with colours and boxes takes a second for every thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = "   "
MARGIN = "  "
LEAST_PROSE = 16  # minimum characters in a line of the last column


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, rule: str = "─") -> list[str]:
    """Return a blank line, the heads, a rule, the rows and a blank line; numbers right-aligned, text left-aligned."""
    rows = [[*row, *[""] * (len(columns) - len(row))] for row in rows]  # a row may be short
    sizes = _fitted([max(map(_widest_line, cells)) for cells in zip(columns, *rows, strict=True)], width)
    right = [_is_numeric(at, rows) for at in range(len(columns))]
    lines = ["", *_lines(columns, sizes, right), " " + rule * (table_width(sizes) - len(MARGIN))]
    for row in rows:
        lines += _lines(row, sizes, right)
    return [*lines, ""]


def table_width(sizes: Sequence[int]) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(sizes) + len(GAP) * (len(sizes) - 1) + 2 * len(MARGIN)


def cell_width(text: str) -> int:
    """Return the width on the screen: wide characters take two columns, combining marks none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def _widest_line(cell: str) -> int:
    return max(map(cell_width, cell.split("\n"))) if "\n" in cell else cell_width(cell)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Wrap at spaces if possible, else where the line is full."""
    line, used = "", 0
    for word in text.split(" "):
        size = cell_width(word)
        if line and used + 1 + size > width:
            yield line
            line, used = "", 0
        elif line:
            line, used = f"{line} ", used + 1
        while used + size > width:
            head = _head(word, width - used)
            yield line + head
            line, used, word = "", 0, word[len(head) :]
            size = cell_width(word)
        line, used = line + word, used + size
    yield line


def _head(word: str, width: int) -> str:
    """Return as much of a word as fits, at least one character."""
    if word.isascii():
        return word[: max(width, 1)]
    at = 1
    while at < len(word) and cell_width(word[: at + 1]) <= width:
        at += 1
    return word[:at]


def _is_numeric(at: int, rows: Sequence[Sequence[str]]) -> bool:
    return at > 0 and all(row[at].lstrip("-<")[:1].isdigit() or len(row[at]) <= 1 for row in rows)


def _fitted(sizes: list[int], width: int) -> list[int]:
    """Shrink columns to fit: the last first, which is often prose, then the widest."""
    over = table_width(sizes) - width
    prose = min(max(over, 0), max(sizes[-1] - LEAST_PROSE, 0))
    sizes[-1] -= prose
    over -= prose
    while over > 0:
        widest = max(sizes)
        if widest <= 4:
            break
        next_one = max([size for size in sizes if size < widest] + [4])
        among = [at for at, size in enumerate(sizes) if size == widest]
        step = min(widest - next_one, max(over // len(among), 1))
        for at in among:
            sizes[at] -= min(step, max(over, 0))
            over -= step
    return sizes


def _lines(cells: Sequence[str], sizes: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """Yield a row in as many lines as its highest cell needs."""
    plain = all(
        "\n" not in cell and len(cell) <= size and cell.isascii() for cell, size in zip(cells, sizes, strict=True)
    )
    if plain:
        yield _line(cells, sizes, right)
        return
    parts = [
        [part for line in cell.split("\n") for part in wrapped(line, size)]
        for cell, size in zip(cells, sizes, strict=True)
    ]
    for at in range(max(map(len, parts))):
        yield _line([part[at] if at < len(part) else "" for part in parts], sizes, right)


def _line(cells: Sequence[str], sizes: Sequence[int], right: Sequence[bool]) -> str:
    shown = []
    for cell, size, to_the_right in zip(cells, sizes, right, strict=True):
        blank = " " * (size - (len(cell) if cell.isascii() else cell_width(cell)))
        shown.append(blank + cell if to_the_right else cell + blank)
    return (MARGIN + GAP.join(shown)).rstrip()
