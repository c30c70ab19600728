"""Draw a curve in the terminal: with braille dots if the terminal has them, else with plain characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.text import Text

    from cohabit.model.curve import Curve

WIDTH, HEIGHT = 44, 10  # of a plot, in characters
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of each dot in a braille cell, by row and column


class Signs(NamedTuple):
    """The characters of a drawing."""

    point: str
    level: str
    upright: str
    axis: str
    corner: str
    floor: str


FINE = Signs("●", "┄", "┊", "┤", "└", "─")
PLAIN = Signs("o", "-", ":", "|", "+", "-")


class Canvas(NamedTuple):
    """Maps a value at a number of ways to dots; `across` times `down` dots make a character."""

    first: int
    last: int
    top: float
    across: int
    down: int

    def dot(self, ways: float, value: float) -> tuple[int, int]:
        """Return column and row of the dot, from the upper left."""
        columns, rows = WIDTH * self.across - 1, HEIGHT * self.down - 1
        x = round((ways - self.first) / max(self.last - self.first, 1) * columns)
        return x, rows - min(round(value / self.top * rows), rows)

    def cell(self, ways: float, value: float) -> tuple[int, int]:
        """Return the same in characters."""
        x, y = self.dot(ways, value)
        return x // self.across, y // self.down


def draw(curve: Curve, title: str, wanted: float | None, wanted_ways: int, plain: bool) -> list[Text]:
    """Return the lines of a plot from 0 up: the curve, its sampled points, the wanted value and the ways for it."""
    from rich.text import Text

    signs, top = (PLAIN if plain else FINE), max(*curve.values, wanted or 0.0, 1e-9) * 1.05
    first, last = min(curve.ways[0], wanted_ways), max(curve.ways[-1], wanted_ways)
    canvas = Canvas(first, last, top, *((1, 1) if plain else (2, 4)))
    chosen, reached = canvas.cell(wanted_ways, curve.at(wanted_ways))
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    if wanted is not None:
        level = canvas.cell(first, wanted)[1]
        cells |= {(x, level): (signs.level, "yellow") for x in range(chosen + 1)}
    cells |= {(chosen, y): (signs.upright, "yellow") for y in range(reached + 1, HEIGHT)}
    cells |= _traced(curve, canvas, plain)
    cells |= {canvas.cell(*point): (signs.point, "bold cyan") for point in zip(curve.ways, curve.values, strict=True)}
    lines = [Text(title, style="bold")]
    for y in range(HEIGHT):
        label = f"{top * (HEIGHT - 1 - y) / (HEIGHT - 1):7.3g}" if y % 3 == 0 else " " * 7
        line = Text(f"{label} {signs.axis}")
        for x in range(WIDTH):
            line.append(*cells.get((x, y), (" ", "")))
        lines.append(line)
    lines.append(Text(" " * 8 + signs.corner + signs.floor * WIDTH))
    lines.append(Text(" " * 9 + _ticks({ways: canvas.cell(ways, 0)[0] for ways in (*curve.ways, wanted_ways)})))
    return lines


def _traced(curve: Curve, canvas: Canvas, plain: bool) -> dict[tuple[int, int], tuple[str, str]]:
    """Return the curve itself, dot by dot."""
    dots: dict[tuple[int, int], int] = {}
    columns = WIDTH * canvas.across
    for column in range(columns):
        ways = canvas.first + column / (columns - 1) * (canvas.last - canvas.first)
        x, y = canvas.dot(ways, curve.at(ways))
        cell = (x // canvas.across, y // canvas.down)
        dots[cell] = dots.get(cell, 0) | (0 if plain else DOTS[y % canvas.down][x % canvas.across])
    return {cell: ("." if plain else chr(0x2800 + bits), "cyan") for cell, bits in dots.items()}


def _ticks(columns: dict[int, int]) -> str:
    """Return numbers of ways under the axis, as many as fit; the ends first."""
    line = [" "] * (WIDTH + 4)
    marks = sorted(columns)
    for ways in [*marks[:1], *marks[-1:], *marks[1:-1]]:
        at, text = columns[ways], str(ways)
        if all(character == " " for character in line[max(at - 1, 0) : at + len(text) + 1]):
            line[at : at + len(text)] = text
    return "".join(line).rstrip() + " ways"
