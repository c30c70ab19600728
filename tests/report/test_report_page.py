"""report.html: complete, self-contained, small enough, and deaf to hostile names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.records import RunTable
from cohabit.report.gantt_figures import PACKABLE_JOBS, gantt_charts
from cohabit.report.html import render_report, write_report
from cohabit.report.metrics import summarise
from cohabit.report.wording import GLOSSARY, shown, shown_range, shown_ratio, significant, time_unit

RunOf = Callable[..., RunTable]
HOSTILE = '</script><img src=x onerror=alert(1)><b>"&amp;'


class Tags(HTMLParser):
    """Collects what a browser would see: tags with attributes, and the stored figures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.figures_text = ""
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        self._inside = f"{tag}#{dict(attrs).get('id')}"

    def handle_data(self, data: str) -> None:
        if self._inside == "script#figures":
            self.figures_text += data
        elif not self._inside.startswith(("script", "style")):
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def figures_of(page: str) -> dict[str, dict[str, object]]:
    return msgspec.json.decode(Tags(page).figures_text)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def small_page(small_run: RunTable) -> str:
    return render_report([small_run], "A small run")


@pytest.fixture(scope="module")
def comparison_page(policy_runs: list[RunTable]) -> str:
    return render_report(policy_runs, "Three policies")


def test_one_run_says_in_words_what_came_out(small_page: str, small_run: RunTable) -> None:
    text = Tags(small_page).text.replace("\u00a0", " ")
    assert "198 of 200 jobs of 9 users from synthetic.swf ran on 32 nodes (128 cores) under fcfs." in text
    assert "2 rejected. The most frequent reason given: larger than the machine." in text
    assert shown("share", summarise(small_run)["utilisation"]) in text
    figures = summarise(small_run)
    assert figures["jobs_below_promise"] is None or figures["varying_runs"] is None
    for key, entry in GLOSSARY.items():  # what means nothing in this run is left out
        assert entry.meaning in text or figures[key] is None
    assert GLOSSARY["varying_runs"].meaning not in text or figures["varying_runs"] is not None


def test_a_comparison_names_the_best_policy_and_its_certainty(comparison_page: str) -> None:
    text = Tags(comparison_page).text.replace("\u00a0", " ")
    assert "3 policies ran 300 jobs from synthetic.swf on 32 nodes (128 cores), 5 times each" in text
    assert re.search(r"shortest under sjf .* less than under fcfs, with 95 % confidence between \d+ and \d+ %", text)
    assert "(better)" in text
    assert "(worse)" in text


def test_every_picture_has_a_place_a_label_and_a_caption(comparison_page: str) -> None:
    tags = Tags(comparison_page)
    places = [attrs for tag, attrs in tags.seen if tag == "div" and attrs.get("class") == "plot"]
    assert {place["data-figure"] for place in places} == set(figures_of(comparison_page))
    assert all(place["aria-label"] for place in places)
    assert comparison_page.count("<figcaption>") == len(places)
    assert len(places) == 13  # comparison, 3 Gantt charts, 3 of causes; used, ended, queue, waits, slowdowns, users


def test_every_axis_of_time_names_its_unit(small_page: str) -> None:
    titles = re.findall(r"time since the first submission \((\w+)\)", Tags(small_page).figures_text)
    assert titles
    assert set(titles) <= {"s", "min", "h", "days"}


def test_nothing_is_loaded_from_anywhere(comparison_page: str) -> None:
    tags = Tags(comparison_page)
    for tag, attrs in tags.seen:
        assert tag not in {"link", "iframe", "object", "embed", "base"}, tag
        assert "src" not in attrs
        assert "href" not in attrs
    policy = next(attrs["content"] for tag, attrs in tags.seen if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    style = comparison_page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_names_stay_text(run_of: RunOf) -> None:
    run = run_of([(0, 0, 10, 2), (0, 5, 20, 3)], user=np.array([0, 1], np.int32))
    workload = replace(
        run.workload, program=np.array([0, 1], np.int32), program_names=(HOSTILE, "p"), user_names=(HOSTILE, "u"),
        source=HOSTILE, job_id=np.array([HOSTILE, "2"], object),
    )  # fmt: skip
    run = replace(run, workload=workload, policy=HOSTILE, settings={HOSTILE: HOSTILE}, scenario_hash=HOSTILE)
    page = render_report([run, replace(run, policy="other " + HOSTILE)], HOSTILE)
    tags = Tags(page)
    assert not [tag for tag, _ in tags.seen if tag in {"img", "b"}]
    assert sum(tag == "script" for tag, _ in tags.seen) == 3
    assert "</script><img" not in page
    assert HOSTILE in tags.text
    stored = tags.figures_text
    assert "<" not in stored
    decoded = msgspec.json.encode(msgspec.json.decode(stored)).decode()
    assert "<img" not in decoded  # plotly reads a little HTML, so its labels are escaped as well
    assert "&lt;img" in decoded


def test_many_jobs_become_a_raster_with_close_looks(crowded_run: RunTable) -> None:
    charts = gantt_charts(crowded_run)
    assert [chart.title for chart in charts] == [
        "The whole machine", "Close look: when the queue was longest",
        "Close look: around the job that waited longest", "Close look: the beginning",
    ]  # fmt: skip
    maps = charts[0].choice
    assert [one.title for one in maps] == ["Cores in use", "Size", "Wait", "User"]
    for one in maps[1:]:
        trace = one.figure["data"][0]
        assert trace["type"] == "heatmap"
        assert len(trace["levels"]) == (256 if one.title != "User" else 1 + 7 + 1)  # idle; seven users, and others
    assert {len(one.figure["data"]) for one in maps[:3]} == {1}
    assert maps[0].figure["data"][0]["type"] == "heatmap"


def test_a_run_without_node_lists_says_so(small_run: RunTable, wide: Callable[..., RunTable]) -> None:
    (chart,) = gantt_charts(replace(small_run, node_ranges=None))
    assert "Node lists were not recorded" in chart.caption
    assert chart.figure is not None
    (chart,) = gantt_charts(replace(wide(PACKABLE_JOBS + 1), node_ranges=None))
    assert "Node lists were not recorded" in chart.caption
    assert chart.figure is None


@pytest.mark.parametrize("jobs", [[], [(0, None, None, 64)], [(3, 3, 3, 1)], [(0, 0, 5, 1)]])
def test_odd_runs_still_give_a_page(run_of: RunOf, jobs: list[tuple[object, ...]]) -> None:
    page = render_report([run_of(jobs)], "odd")
    assert "nan" not in Tags(page).text.lower().replace("nanosecond", "")
    both = render_report([run_of(jobs), replace(run_of([(0, 0, 5, 1)]), policy="b")], "odd pair")
    assert "odd pair" in both


def test_single_runs_of_two_policies_admit_that_chance_is_not_ruled_out(policy_runs: list[RunTable]) -> None:
    text = Tags(render_report([policy_runs[0], policy_runs[10]], "x")).text
    assert "one run each, so chance is not ruled out" in text
    assert "no confidence intervals" in text


def test_the_file_stays_small(crowded_run: RunTable, tmp_path: Path) -> None:
    write_report([crowded_run], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 8_000_000


def test_the_same_runs_give_the_same_bytes(policy_runs: list[RunTable], comparison_page: str) -> None:
    assert render_report(policy_runs, "Three policies") == comparison_page


def test_an_unwritable_place_is_an_input_error(small_run: RunTable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        write_report([small_run], tmp_path / "file" / "report.html")
    with pytest.raises(ValueError, match="at least one run"):
        write_report([], tmp_path / "report.html")


def test_importing_the_room_does_not_import_plotly() -> None:
    code = "import sys, cohabit.report.html, cohabit.report.picture; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_as_people_read_them() -> None:
    assert significant(1234.5) == "1,230"
    assert significant(0.00123456) == "0.00123"
    assert shown("share", 0.8512) == "85.1 %"
    assert shown("count", 12345) == "12,345"
    assert shown("hours", 12345.6) == "12,346"
    assert shown("number", None) == "\u2013"
    assert shown_range("duration", 20, 42) == "20 to 42 s"
    assert shown_range("duration", 60, 7200) == "1 min to 2 h"
    assert shown_range("duration", 3720, 7320) == "1 h 2 min to 2 h 2 min"
    assert shown_ratio(0.0049) == "0.0049"
    assert shown_ratio(1.5) == "1.50"
    assert [time_unit(span)[0] for span in (10, 200, 20_000, 900_000)] == ["s", "min", "h", "days"]
