"""Groups of a steered cluster: one that comes with `cohabit submit` is the one its mates elsewhere only name."""

from __future__ import annotations

import msgspec
import pytest

from cohabit.app.steer.mates import Groups, MatesTable
from cohabit.live.api.groups import GroupTable
from cohabit.model.errors import InputError

BOTH = {"alpha": "flood", "beta": "flood"}
DESCRIBED = {"flood": GroupTable({"alpha": "left", "beta": "right"}, lease_s=30, when_dead="fail")}


def groups(**keys: object) -> Groups:
    return Groups("alpha", ("beta",), {}, msgspec.convert(keys, MatesTable), "site.toml")


def test_terms_that_are_not_stated_are_those_of_the_site() -> None:
    site = groups(lease_s=20, when_dead="wait")
    assert site.submitted("flood", {"members": BOTH}, in_use=False) == site.find("flood")
    other = site.submitted("flood", {"members": BOTH, "lease_s": 40.0}, in_use=False)
    assert (other.terms.lease_us, other.terms.when_dead) == (40_000_000, "wait")


def test_a_group_in_use_is_not_described_anew() -> None:
    site = groups()
    renamed = {"alpha": "this", "beta": "that"}
    assert site.submitted("flood", {"members": BOTH}, in_use=True) == site.find("flood")
    with pytest.raises(InputError, match="other members or terms"):
        site.submitted("flood", {"members": renamed}, in_use=True)
    group = site.submitted("flood", {"members": renamed}, in_use=False)
    assert site.add(group)
    assert not site.add(group)
    with pytest.raises(InputError, match="other members or terms"):
        site.submitted("flood", {"members": BOTH}, in_use=False)
    site.forget("flood")  # its job was not taken after all
    assert site.submitted("flood", {"members": BOTH}, in_use=False) == site.find("flood")


def test_what_the_site_file_describes_stays_as_it_is() -> None:
    site = Groups("alpha", ("beta",), DESCRIBED, MatesTable(), "site.toml")
    assert site.submitted("flood", {"members": DESCRIBED["flood"].members}, in_use=False) == site.find("flood")
    for stated in ({"members": BOTH}, {"members": DESCRIBED["flood"].members, "when_dead": "start_alone"}):
        with pytest.raises(InputError, match="other members or terms"):
            site.submitted("flood", stated, in_use=False)


def test_a_name_the_manager_might_read_otherwise_is_refused() -> None:
    for name in ("x,cohabit=cohabit:back", "a b", "a@b", "é", ""):
        with pytest.raises(InputError, match="is not a valid name"):
            groups().submitted(name, {"members": BOTH}, in_use=False)


def test_mates_without_a_threshold_are_one_sentence() -> None:
    assert "without its mates for 20 s" in groups(lease_s=20).may_begin_alone
    assert not groups(threshold="10.0.0.1:7002").may_begin_alone
    assert not Groups("", (), {}, MatesTable(), "site.toml").may_begin_alone  # it has no mates
