"""The notebooks run from the first cell to the last, in a real kernel, and leave what they promise."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_two() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_to_its_end(path: Path, tmp_path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert all(not cell.get("outputs") for cell in book.cells), (
        "store notebooks without outputs: they are made by running"
    )
    NotebookClient(
        book, timeout=600, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"text/html", "application/vnd.plotly.v1+json"} <= kinds
    assert not any(output.output_type == "stream" and output.name == "stderr" for output in shown)
