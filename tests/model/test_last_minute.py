"""The last minute beside the window: features, bytes, and windows of before that do not have it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.telemetry import Window, decode, encode

COUNTERS = ("load.one", "load.two")
LOWEST, HIGHEST, MEAN = (np.full((3, 2), value, np.float32) for value in (1.0, 9.0, 5.0))
LAST = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, np.nan]], np.float32)


def window(last: np.ndarray | None = LAST) -> Window:
    return Window(7, COUNTERS, LOWEST, HIGHEST, MEAN, last)


def test_features_have_the_last_minute_where_it_is_known() -> None:
    found = dict(zip(window().feature_names, window().of_all_nodes.tolist(), strict=True))
    assert found == {
        "load.one.min": 1.0, "load.one.max": 9.0, "load.one.mean": 5.0, "load.one.last": 3.0,
        "load.two.min": 1.0, "load.two.max": 9.0, "load.two.mean": 5.0, "load.two.last": 2.0,
    }  # fmt: skip
    assert window().features(np.array([0, 1])).tolist()[3] == 2.0
    assert np.isnan(window().features(np.array([1, 2]))[-1]), "none of these nodes reported it in the last minute"
    assert window(None).feature_names == tuple(name for name in found if not name.endswith(".last"))
    assert len(window(None).of_all_nodes) == 6
    assert window(LOWEST).of_all_nodes.tolist()[3::4] == [1.0, 1.0], "every node reported"


def test_bytes_keep_it_and_those_of_before_are_read() -> None:
    again = decode(encode(window()))
    np.testing.assert_array_equal(again.last, LAST)
    assert again.digest == window().digest != window(None).digest
    before = msgspec.msgpack.encode([7, COUNTERS, 3, *(table.tobytes() for table in (LOWEST, HIGHEST, MEAN))])
    assert before == encode(window(None))
    assert decode(before).last is None
    assert decode(before).digest == window(None).digest
    with pytest.raises(InputError, match="is not a window"):
        decode(msgspec.msgpack.encode([7, COUNTERS, 3, *[LOWEST.tobytes()] * 5]))


def test_a_change_is_one_of_all_tables() -> None:
    found = window().changed(9, ("load.two",), lambda table: table[[0, 0], 1:])
    assert (found.end_us, found.nodes) == (9, 2)
    assert found.of_all_nodes.tolist() == [1.0, 9.0, 5.0, 2.0]
    assert window(None).changed(9, COUNTERS, lambda table: table).last is None
