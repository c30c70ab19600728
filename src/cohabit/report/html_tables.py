"""The parts of report.html that are text: cards, tables and where the numbers come from. All text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from cohabit.model.records import RunTable
from cohabit.report.intervals import Cell, Comparison
from cohabit.report.metrics import Metric
from cohabit.report.predicted import percent, slowdown_figures
from cohabit.report.wording import GLOSSARY, MISSING, Entry, jobs_of, shown, shown_range, shown_ratio

INTERFERENCE = ("run_against_alone", "jobs_below_promise")  # shown where neighbours changed run times
CARDS = ("mean_turnaround_s", "mean_wait_s", "mean_slowdown_alone", *INTERFERENCE, "utilisation", "makespan_s",
         "jobs_ran")  # fmt: skip
NOTICEABLE = 0.005  # a ratio nearer to 1 than this is not worth a colour
TIMES = "\u00d7"
Summary = Mapping[str, Metric]


def escaped(value: object) -> str:
    """Text for an element or an attribute."""
    return html.escape(str(value))


def table(heads: Sequence[tuple[str, str]], rows: Iterable[str], kind: str = "") -> str:
    """A table that scrolls by itself where the window is narrow; heads are (text, class)."""
    head = "".join(f'<th scope="col" class="{style}">{escaped(text)}</th>' for text, style in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def mean_of(values: Iterable[Metric]) -> Metric:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def cards(summaries: Mapping[str, Sequence[Summary]]) -> str:
    """The numbers to see first; of several policies, the best one's mean over repeats."""
    every = [summary for group in summaries.values() for summary in group]
    slowed = any(abs((summary["run_against_alone"] or 1.0) - 1.0) > NOTICEABLE for summary in every)
    keys = [key for key in CARDS if slowed or key not in INTERFERENCE]
    return f'<div class="cards">{"".join(_card(key, summaries) for key in keys)}</div>'


def _card(key: str, summaries: Mapping[str, Sequence[Summary]]) -> str:
    entry = GLOSSARY[key]
    means = {policy: mean_of(summary[key] for summary in group) for policy, group in summaries.items()}
    known = {policy: value for policy, value in means.items() if value is not None}
    text, note = MISSING, ""
    if known:
        choose = max if entry.better == "higher" else min
        best = choose(known, key=known.__getitem__)
        text = shown(entry.kind, known[best])
        differ = len({shown(entry.kind, value) for value in known.values()}) > 1
        if differ and not entry.better:
            text = shown_range(entry.kind, min(known.values()), max(known.values()))
        elif differ:
            note = f'<div class="note">best: {escaped(best)}</div>'
    label = f'<div class="label">{escaped(entry.label)}</div>'
    return f'<div class="card">{label}<div class="value">{escaped(text)}</div>{note}</div>'


def metric_table(group: Sequence[Summary]) -> str:
    """All metrics that one policy has, with what they mean; the mean where there are repeats."""
    rows = []
    for key, entry in GLOSSARY.items():
        if (mean := mean_of(summary[key] for summary in group)) is None:
            continue  # it means nothing in this run
        value = shown(entry.kind, mean)
        rows.append(
            f'<th scope="row">{escaped(entry.label)}</th><td class="number">{escaped(value)}</td>'
            f'<td class="meaning">{escaped(entry.meaning)}</td>'
        )
    return table([("Metric", ""), ("Value", "number"), ("What it is", "")], rows, "single")


def variation_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Programs by policy: how many runs there were, and how far they vary."""
    heads = ("Runs", "Mean run", "Variation", "Deviation", "Varying runs", "Longest / mean")
    rows = []
    for policy, programs in found.items():
        for one in programs:
            cells = (
                one["runs"],
                shown("duration", one["mean_run_s"]),
                shown("share", one["run_variation"]),
                f"{one['deviation_sigma']:.2f} sigma",
                one["varying_runs"],
                f"{one['longest_run_ratio']:.2f}",
            )
            name = f"{one['program']}, {one['processes']:,} processes"
            text = "".join(f'<td class="number">{escaped(cell)}</td>' for cell in cells)
            rows.append(f'<th scope="row">{escaped(name)}</th><td>{escaped(policy)}</td>{text}')
    return table([("Program", ""), ("Policy", ""), *((head, "number") for head in heads)], rows)


def predicted_table(runs: Mapping[str, RunTable]) -> str:
    """Programs by policy: predicted and measured slowdown, and how far a prediction errs."""
    heads = ("Jobs", "Predicted", "Measured", "Mean error", "Error of predicting none")
    rows = []
    for policy, run in runs.items():
        told = slowdown_figures(run)["slowdowns"]
        for one in (*told["programs"], {"program": "all", **told}):
            cells = (
                f"{one['jobs']:,}",
                percent(one["mean_predicted"]),
                percent(one["mean_measured"]),
                f"{100 * one['mean_abs_error']:.1f} points",
                f"{100 * one['mean_abs_error_of_none']:.1f} points",
            )
            text = "".join(f'<td class="number">{escaped(cell)}</td>' for cell in cells)
            rows.append(
                f'<th scope="row">{escaped(one["program"] or "without a name")}</th><td>{escaped(policy)}</td>{text}'
            )
    return table([("Program", ""), ("Policy", ""), *((head, "number") for head in heads)], rows)


def comparison_table(comparison: Comparison) -> str:
    """Metrics x policies, each with its interval and its ratio to the first policy."""
    rows = []
    for metric in comparison.metrics:
        if all(comparison.cells[policy, metric].value.mean is None for policy in comparison.policies):
            continue
        entry = GLOSSARY.get(metric, Entry(metric, "number", ""))
        meaning = f'<div class="meaning">{escaped(entry.meaning)}</div>'
        cells = [
            _cell(entry, comparison.cells[policy, metric], number == 0)
            for number, policy in enumerate(comparison.policies)
        ]
        rows.append(f'<th scope="row">{escaped(entry.label)}{meaning}</th>{"".join(cells)}')
    heads = [("Metric", ""), *((policy, "number") for policy in comparison.policies)]
    note = (
        "Means over repeats; below them, the 95 % interval and the ratio to the first policy, coloured where it is "
        "clearly better or worse."
    )
    return f'{table(heads, rows)}<p class="caption">{note}</p>'


def _cell(entry: Entry, cell: Cell, first: bool) -> str:
    value, ratio = cell.value, cell.ratio
    below = ""
    if value.low is not None and value.high is not None and value.low != value.high:
        below += f"<small>{escaped(shown_range(entry.kind, value.low, value.high))}</small>"
    if not first and ratio.mean is not None:
        verdict = _verdict(entry, cell)
        mark = f" ({verdict})" if verdict else ""
        below += f'<small class="{verdict}">{TIMES} {shown_ratio(ratio.mean)}{mark}</small>'
    return f'<td class="number">{escaped(shown(entry.kind, value.mean))}{below}</td>'


def _verdict(entry: Entry, cell: Cell) -> str:
    """ "better" or "worse" where the whole interval of the ratio says so, else nothing."""
    ratio = cell.ratio
    if ratio.mean is None or not entry.better:
        return ""
    low = ratio.mean if ratio.low is None else ratio.low
    high = ratio.mean if ratio.high is None else ratio.high
    if high < 1 - NOTICEABLE:
        return "better" if entry.better == "lower" else "worse"
    if low > 1 + NOTICEABLE:
        return "better" if entry.better == "higher" else "worse"
    return ""


def origin(runs: Sequence[RunTable]) -> str:
    """Return where the numbers come from, for repeating the run."""
    rows = []
    for run in runs:
        hashes = (run.scenario_hash or MISSING, run.journal_hash or MISSING)
        cells = (run.policy, run.seed, jobs_of(len(run)), f"{run.events:,}", *hashes)
        rows.append("".join(f"<td>{escaped(cell)}</td>" for cell in cells))
    heads = [(name, "") for name in ("Policy", "Seed", "Input", "Events", "Scenario hash", "Journal hash")]
    settings = ""
    if runs[0].settings:
        text = msgspec.json.format(msgspec.json.encode(runs[0].settings, enc_hook=str), indent=2).decode()
        settings = f"<details><summary>Settings of the first run</summary><pre>{escaped(text)}</pre></details>"
    return table(heads, rows) + settings
