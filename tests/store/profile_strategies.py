"""Hypothesis strategies for profiles, and a small one by hand."""

from __future__ import annotations

from hypothesis import strategies as st

from cohabit.model.curve import Curve
from cohabit.model.profile import Profile, ScaleProfile

positive = st.floats(1e-6, 1e9)
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda name: bool(name.strip())
)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    ways = sorted(draw(st.sets(st.integers(1, 40), min_size=2, max_size=6)))
    return Curve(tuple(ways), tuple(draw(st.lists(positive, min_size=len(ways), max_size=len(ways)))))


@st.composite
def scale_profiles(draw: st.DrawFn, scale: int) -> ScaleProfile:
    maybe = st.one_of(st.none(), curves())
    return ScaleProfile(
        scale=scale, time_s=draw(st.one_of(st.just(0.0), positive)), ipc=draw(maybe), bandwidth_gbs=draw(maybe),
        miss_rate=draw(maybe), communication=draw(st.one_of(st.just(-1.0), st.floats(0, 1))),
        counters=draw(st.dictionaries(names, positive, max_size=3)), samples=draw(st.integers(1, 1000)),
        time_variance=draw(st.one_of(st.just(0.0), positive)), measured_at_us=draw(st.integers(0, 2**60)),
    )  # fmt: skip


@st.composite
def profiles(draw: st.DrawFn, program: st.SearchStrategy[str] = names) -> Profile:
    scales = sorted(draw(st.sets(st.sampled_from([1, 2, 4, 8]), max_size=3)))
    return Profile(
        program=draw(program), processes=draw(st.integers(1, 4096)),
        scales=tuple(draw(scale_profiles(scale)) for scale in scales), single_node=draw(st.booleans()),
        hardware=draw(st.sampled_from(["", "28c-20w-118.26g", "other"])),
        provenance=draw(st.sampled_from(["measured", "calibrated", "imported"])),
    )  # fmt: skip


def run_of(time_s: float, at_us: int = 0, program: str = "MG", scale: int = 1, hardware: str = "28c-20w") -> Profile:
    """One timed run."""
    return Profile(program, 16, (ScaleProfile(scale, time_s, measured_at_us=at_us),), hardware=hardware)


def curves_of(program: str = "MG", at_us: int = 0, full: float = 1.0) -> Profile:
    """One run for the curves."""
    measured = ScaleProfile(
        1, ipc=Curve((2, 20), (0.5, full)), bandwidth_gbs=Curve((2, 20), (9.0, 8.0)), measured_at_us=at_us
    )
    return Profile(program, 16, (measured,), hardware="28c-20w")
