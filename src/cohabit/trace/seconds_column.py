"""Convert columns of times between int64 microseconds and decimal seconds as text, without losing a microsecond.

For one number use `model.units`; this module converts a column of a million in one call.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from cohabit.model.units import SECOND
from cohabit.model.workload import Ints


def seconds_text(times_us: Ints) -> pl.Series:
    """Seconds as people write them: "12", "0.5", "-1"; integers where every time is whole."""
    if not bool((times_us % SECOND).any()):
        return pl.Series(times_us // SECOND)
    size = np.abs(times_us)
    frame = pl.DataFrame({"sign": np.where(times_us < 0, "-", ""), "whole": size // SECOND, "part": size % SECOND})
    part = pl.col("part").cast(pl.String).str.zfill(6).str.strip_chars_end("0")
    fraction = pl.when(pl.col("part") == 0).then(pl.lit("")).otherwise(pl.lit(".") + part)
    return frame.select(pl.col("sign") + pl.col("whole").cast(pl.String) + fraction).to_series()


def microseconds_of(texts: pl.Series) -> pl.Series:
    """Int64 microseconds, null where a text is not a decimal number of seconds below 146,000 years."""
    whole = texts.cast(pl.Int64, strict=False)
    in_range = whole.is_between(-(2**62) // SECOND, 2**62 // SECOND)
    exact = pl.select(pl.when(in_range).then(whole * SECOND)).to_series()
    if exact.null_count() == texts.null_count():
        return exact
    pieces = texts.str.extract_groups(r"^([+-]?)(\d{0,12})(?:\.(\d*))?$").struct.unnest()
    pieces.columns = ["sign", "whole", "part"]
    digits = pl.col("part").fill_null("").str.pad_end(7, "0").str.slice(0, 7).cast(pl.Int64)
    size = pl.concat_str(pl.lit("0"), "whole").cast(pl.Int64, strict=False) * SECOND + (digits + 5) // 10
    is_number = pl.col("whole").str.len_chars() + pl.col("part").fill_null("").str.len_chars() > 0
    signed = pl.when(is_number).then(pl.when(pl.col("sign") == "-").then(-size).otherwise(size))
    decimal = pieces.select(signed).to_series()
    powers = texts.cast(pl.Float64, strict=False)
    usable = powers.is_finite() & (powers.abs() < 2**62 / SECOND)
    scientific = pl.select(pl.when(usable).then(powers * SECOND).round().cast(pl.Int64, strict=False)).to_series()
    return pl.select(pl.coalesce(exact, decimal, scientific)).to_series()
