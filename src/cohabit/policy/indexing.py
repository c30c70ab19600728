"""What recorded orders may write between brackets: x[mask], x[order] and x[places] of a sort, and the first in a sort.

As in policy/vocabulary.py, the two functions here are called with the tape and what numpy would be called with.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from cohabit.policy.stand_ins import Noted, StandIn, Tape, example_of
from cohabit.policy.vocabulary import astype, understands, where
from cohabit.policy.whole_queue import REDUCTIONS, count_nonzero


class Picked(StandIn):
    """order[:10]: some of a sort, one after the other."""

    def __init__(self, mask: Noted) -> None:
        super().__init__(mask.tape)
        self.mask = mask


class Chosen(np.lib.mixins.NDArrayOperatorsMixin, StandIn):
    """x[mask] or x[order[:10]]: it goes through element-wise functions, and numbers are made of all of it."""

    is_asked_first = True

    def __init__(self, of: Noted, by: Noted | Picked) -> None:
        super().__init__(of.tape)
        self.of, self.in_order = of.copy(), isinstance(by, Picked)
        self.mask = by.mask.copy() if isinstance(by, Picked) else by.copy()

    __hash__ = StandIn._refuse

    @property
    def size(self) -> Any:
        """How many there are."""
        return count_nonzero(self.tape, self.mask)

    def is_by(self, key: Any) -> bool:
        """Whether it was chosen by this."""
        mask = key.mask if isinstance(key, Picked) else key
        return isinstance(key, Picked) == self.in_order and isinstance(mask, Noted) and mask.name == self.mask.name

    def __getattr__(self, name: str) -> Any:
        return partial(self.reduce, name) if name in ("sum", "mean", "max", "min") else super().__getattr__(name)

    def __array_function__(self, function: Any, _types: Any, values: Any, options: Any) -> Any:
        how = REDUCTIONS.get(function, "")
        return getattr(self, how)() if how and len(values) == 1 and not options else self.tape.beyond()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        target = options.pop("out", (None,))[0]
        if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
            self.tape.beyond()
        values = [self._beside(one) for one in inputs]
        found = values[0] ** values[1] if ufunc is np.power else ufunc(*values)
        if target is None:
            return Chosen(found, Picked(self.mask) if self.in_order else self.mask)
        if not isinstance(target, Chosen) or found.example.dtype != target.of.example.dtype:
            self.tape.beyond()
        target.of = found
        return target

    def _beside(self, value: Any) -> Any:
        """What stands beside each when the two are taken element by element."""
        if isinstance(value, Chosen):
            key = Picked(self.mask) if self.in_order else self.mask
            return value.of if value.is_by(key) else self.tape.beyond()
        single = not value.per_row if isinstance(value, Noted) else isinstance(value, bool | int | float | np.number)
        return value if single else self.tape.beyond()

    def reduce(self, how: str) -> Any:
        """One number made of them; sums come out in another way in another order."""
        value = self.tape.per_row(self.of, "f" if how in ("max", "min") else "if")
        if how in ("sum", "mean") and self.in_order:
            self.tape.beyond()
        if how == "sum" and value.example.dtype.kind == "i":
            return where(self.tape, self.mask, value, 0).sum()
        kind = value.example.dtype.name
        return self.tape.note(kind, [value, self.mask], np.float64(1.0), reduces=f"{how}_of_chosen")


@understands(operator.getitem)
def getitem(tape: Tape, value: Any, key: Any) -> Any:
    """x[order] for the order of a sort, or for the places in it; x[mask]; or order[:10]."""
    value = tape.per_row(value)
    if type(key) is slice:
        return _part_of_sort(tape, value, key)
    if isinstance(key, Picked):
        return Chosen(value, key)
    key = tape.per_row(key, "bi")
    if key.example.dtype.kind == "b":
        return Chosen(value, key)
    if key.name not in tape.inverse:
        tape.beyond()
    if value.name in tape.numbered:
        return key.copy()
    kept = tape.note(value.stored_type(), [value], value.example, reduces="kept")
    return tape.note(f"{kept.name}_all[{key.name}]", [kept, key], value.example[key.example])


@understands(operator.setitem)
def setitem(tape: Tape, target: Any, key: Any, value: Any) -> None:
    """x[mask] = number or = y[mask], x[order[:10]] in the same way, or x[order] = values."""
    target = tape.per_row(target)
    if isinstance(key, Noted) and key.name in tape.inverse:
        found = tape.per_row(value)[_inverse(tape, key)]
        whole = target.example.dtype == np.float64 and found.example.dtype == np.int64
        target.put_into(target, astype(tape, found, float) if whole else found)
        return
    mask = tape.per_row(key.mask if isinstance(key, Picked) else key, "b")
    if isinstance(value, Chosen):
        value = value.of if value.is_by(key) else tape.beyond()
    elif np.asarray(example_of(value)).ndim:
        tape.beyond()
    if target.example.dtype != np.float64:
        tape.beyond()
    target.put_into(target, where(tape, mask, np.float64(1.0) * value, target))


def _inverse(tape: Tape, key: Noted) -> Noted:
    """The places in a sort for its order, and the other way round."""
    return Noted(tape, tape.inverse[key.name], True, np.argsort(key.example))


def _part_of_sort(tape: Tape, order: Noted, part: slice) -> Any:
    if order.name not in tape.inverse:
        tape.beyond()
    places, (start, stop) = _inverse(tape, order), (part.start, part.stop)
    if part.step == -1 and start is None and stop is None:
        text = f"{places.name}_order[count - 1 - index]"
        sorts = any(line.name == places.name and line.reduces == "places" for line in tape.lines)
        found = tape.note(text, [places], order.example[::-1]) if sorts else tape.beyond()
        backwards = tape.count - 1 - places
        tape.inverse.update({found.name: backwards.name, backwards.name: found.name})
        return found
    if part.step not in (None, 1) or (start is None and stop is None):
        tape.beyond()
    masks = [] if start is None else [places >= _from_the_front(tape, start)]
    masks += [] if stop is None else [places < _from_the_front(tape, stop)]
    return Picked(masks[0] if len(masks) == 1 else masks[0] & masks[1])


def _from_the_front(tape: Tape, place: Any) -> Any:
    """A place that may be counted from the end."""
    if type(place) is int:
        return place if place >= 0 else tape.count + place
    if not isinstance(place, Noted) or type(place.example) is not int:
        tape.beyond()
    return where(tape, np.less(place, 0), tape.count + place, place)
