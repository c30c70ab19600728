"""Stand-ins for what an order function is called with: they compute nothing and note what numpy is asked to do.

policy/recording.py calls orders with them. Whatever is not known here to be the same in compiled code is refused, and
the tape is spoilt for good, also where the function catches the exception.
"""

from __future__ import annotations

from functools import partialmethod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cohabit.policy.one_by_one import BY_USER
from cohabit.policy.settled import SETTLED

LARGEST = 2**62  # whole numbers below it can be added to a time
MOST_BRANCHES = 6
NUMBER_TYPES = (np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64))
REDUCTIONS = {
    np.sum: "sum", np.mean: "mean", np.max: "max", np.min: "min", np.amax: "max", np.amin: "min", np.std: "std",
    np.var: "var", np.any: "any", np.all: "all", np.median: "median",
}  # fmt: skip
WHOLE = ("places", "kept", "sizes", "cubes")  # what needs all rows at once, and gives a value per row
MOST_LISTED = 64  # numbers that may be looked for one after the other
LIKE = {np.zeros_like: np.zeros_like, np.ones_like: np.ones_like, np.empty_like: np.zeros_like}
# What Python's own numbers, the time and the parameters, may go through: there it does as numpy does
WITH_PYTHON_NUMBERS = (
    "add", "subtract", "negative", "maximum", "minimum", "greater", "greater_equal", "less", "less_equal", "equal",
    "not_equal",
)  # fmt: skip


class Beyond(Exception):
    """The function does something that cannot be recorded."""


class Line(NamedTuple):
    """One value: how it is computed, from which others, and whether there is one per row."""

    name: str
    text: str
    uses: tuple[str, ...]
    per_row: bool
    reduces: str = ""  # what is made of all rows of the value in `uses` (sum, places, ...); `text` is then its type
    fixed: bool = False  # it is the same in every pass
    kind: str = ""  # its type


class Branch(NamedTuple):
    """A number the function wanted to know the truth of, after so many lines."""

    after: int
    name: str


class Tape:
    """What has been noted so far, given the answers to the first few questions; all others are answered yes."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = answers
        self.branches: list[Branch] = []
        self.path = "v"  # names say by which answers a value was reached
        self.lines: list[Line] = []
        self.users: set[str] = set()  # values that are jobs.user[rows]
        self.fixed: set[str] = set()  # the same in every pass: parameters, and what is made of them and columns
        self.inverse: dict[str, str] = {}  # orders of a sort and the places in it, by each other
        self.numbered: set[str] = set()  # values that are 0, 1, 2, ...
        self.spoilt = False  # also where the function itself catches the exception

    def beyond(self) -> NoReturn:
        """This cannot be recorded."""
        self.spoilt = True
        raise Beyond

    def note(
        self, text: str, values: list[Any], example: Any, per_row: bool = False, reduces: str = "", fixed: bool = True
    ) -> Noted:
        """A new value, computed from those."""
        noted = [value for value in values if isinstance(value, Noted)]
        per_row = reduces in WHOLE or (not reduces and (per_row or any(value.per_row for value in noted)))
        uses = tuple(value.name for value in noted)
        fixed = fixed and not reduces and self.fixed.issuperset(uses)
        name, kind = f"{self.path}{len(self.lines)}", np.asarray(example).dtype.name
        line = Line(name, text, uses, per_row, reduces, fixed, kind)
        self.lines.append(line)
        if fixed:
            self.fixed.add(line.name)
        return Noted(self, line.name, per_row, example)

    def decide(self, name: str) -> bool:
        """Whether this number is to be taken for true."""
        if len(self.branches) == MOST_BRANCHES:
            self.beyond()
        place = len(self.branches)
        answer = self.answers[place] if place < len(self.answers) else True
        self.branches.append(Branch(len(self.lines), name))
        self.path += "y" if answer else "n"
        return answer


class _StandIn:
    """Whatever Python or numpy may ask of an array, refused."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.tape.beyond()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.tape.beyond()

    __bool__ = __int__ = __float__ = __index__ = __hash__ = __str__ = __repr__ = __format__ = _refuse
    __len__ = __iter__ = __contains__ = __getitem__ = __setitem__ = _refuse
    __array__ = __array_ufunc__ = __array_function__ = _refuse


class Noted(np.lib.mixins.NDArrayOperatorsMixin, _StandIn):
    """A value of the recording; `example` is what it would be for a few jobs, and tells its type."""

    def __init__(self, tape: Tape, name: str, per_row: bool, example: Any) -> None:
        super().__init__(tape)
        self.name, self.per_row, self.example = name, per_row, example

    __hash__ = _StandIn._refuse

    def __bool__(self) -> bool:  # type: ignore[override]
        return self.tape.beyond() if self.per_row else self.tape.decide(self.name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees."""
        return type(self.example)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        target = options.pop("out", (None,))[0]
        known = getattr(np, ufunc.__name__, None) is ufunc and ufunc.nout == 1 and ufunc.signature is None
        if method != "__call__" or options or not known or ufunc.nin != len(inputs):
            self.tape.beyond()
        terms, examples = [self._term(value) for value in inputs], [_example_of(value) for value in inputs]
        with np.errstate(all="ignore"):
            example = ufunc(*examples)
        if all(type(one) in (bool, int, float) for one in examples):
            self._check_python_numbers(ufunc.__name__, inputs, examples)
            example = example.item()
        if ufunc is np.power and self._to_be_cubed(*inputs):
            found = self.tape.note("float64", [inputs[0]], example, reduces="cubes")
        else:
            found = self._note(f"numpy.{ufunc.__name__}({', '.join(terms)})", list(inputs), example)
        return found if target is None else self._put_into(target, found)

    def _to_be_cubed(self, base: Any, exponent: Any) -> bool:
        """Fractions that change, to the third power."""
        if not isinstance(base, Noted) or not base.per_row or base.name in self.tape.fixed:
            return False
        return base.example.dtype == np.float64 and type(exponent) in (int, float) and exponent == 3

    def __pow__(self, exponent: Any) -> Any:
        if self.per_row and type(exponent) in (int, float) and exponent in (2, 0.5):  # numpy's own shortcuts
            return np.square(self) if exponent == 2 else np.sqrt(self)
        return super().__pow__(exponent)

    __ipow__ = _StandIn._refuse  # it has the same shortcuts

    def __array_function__(self, function: Any, _types: Any, values: Any, options: Any) -> Any:
        if function is np.where and len(values) == 3 and not options:
            condition, one, other = (self._term(value) for value in values)
            example = np.where(*(_example_of(value) for value in values))
            return self._note(f"({one} if {condition} else {other})", list(values), example)
        if function is np.clip and len(values) == 3 and not options:
            return values[0].clip(*values[1:]) if isinstance(values[0], Noted) else self.tape.beyond()
        if function is np.select and len(values) in (2, 3) and not options:
            return self._first_that_holds(*values)
        if function is np.digitize and len(values) == 2 and not options and values[0] is self:
            return self._edges_passed(values[1], np.greater_equal)
        if function is np.searchsorted and len(values) == 2 and not options and values[1] is self:
            return self._edges_passed(values[0], np.greater)
        if function in LIKE and len(values) == 1 and options in ({}, {"dtype": float}, {"dtype": int}):
            return self.filled(LIKE[function](_example_of(values[0]), **options))
        if function in REDUCTIONS and len(values) == 1 and not options:
            return self._reduced(REDUCTIONS[function])
        if function is np.argsort and len(values) == 1:
            return self.argsort(**options)
        if function is np.isin and len(values) == 2 and not options:
            return self._is_one_of(values[1])
        if function is np.unique and len(values) == 1:
            return self._different(**options)
        return self.tape.beyond()

    def argsort(self, *more: Any, kind: Any = None, stable: Any = None, **options: Any) -> Noted:
        """The order of a sort that is stable: numpy leaves open what others do with equal ones."""
        if more or options or not self.per_row or (kind not in ("stable", "mergesort") and stable is not True):
            self.tape.beyond()
        example = np.argsort(self.example, kind="stable")
        if self.name in self.tape.inverse:
            return Noted(self.tape, self.tape.inverse[self.name], True, example)
        places = self.tape.note(self._stored_type(), [self], np.argsort(example), reduces="places")
        order = self.tape.note(f"{places.name}_order[index]", [places], example)
        self.tape.inverse.update({places.name: order.name, order.name: places.name})
        return order

    def __getitem__(self, order: Any) -> Noted:  # type: ignore[override]
        """x[order] for the order of a sort, or for the places in it."""
        if not isinstance(order, Noted) or order.name not in self.tape.inverse or not self.per_row:
            self.tape.beyond()
        if self.name in self.tape.numbered:
            return order.copy()
        kept = self.tape.note(self._stored_type(), [self], self.example, reduces="kept")
        found = self.example[order.example]
        return self.tape.note(f"{kept.name}_all[{order.name}]", [kept, order], found)

    def clip(self, *bounds: Any, **named: Any) -> Any:
        """Between two bounds."""
        if len(bounds) > 2 or not named.keys() <= {"min", "max"}:
            self.tape.beyond()
        low, high = (*bounds, *(None,) * 2)[:2]
        low, high = named.get("min", low), named.get("max", high)
        raised = self if low is None else np.maximum(self, low)
        return raised if high is None else np.minimum(raised, high)

    def _first_that_holds(self, conditions: Any, choices: Any, otherwise: Any = 0) -> Any:
        """np.select"""
        truths = all(isinstance(one, Noted) and one.example.dtype.kind == "b" for one in conditions)
        if not truths or len(conditions) != len(choices):
            self.tape.beyond()
        found = otherwise
        for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
            found = self.__array_function__(np.where, (), (condition, choice, found), {})
        return found

    def _edges_passed(self, listed: Any, passes: np.ufunc) -> Any:
        """How many of some numbers in rising order it has passed: np.digitize and np.searchsorted."""
        edges = np.asarray(listed)
        fits = edges.ndim == 1 and 0 < len(edges) <= MOST_LISTED and edges.dtype.kind in "if"
        if not fits or not self.per_row or self.example.dtype.kind not in "if" or not (edges[1:] > edges[:-1]).all():
            self.tape.beyond()
        return sum(passes(self, edge) * 1 for edge in edges.tolist())

    def _is_one_of(self, listed: Any) -> Noted:
        """np.isin with a short list of whole numbers."""
        numbers = np.asarray(listed)
        fits = numbers.dtype == np.int64 and numbers.ndim == 1 and 0 < len(numbers) <= MOST_LISTED
        if not fits or not self.per_row or self.example.dtype != np.int64:
            self.tape.beyond()
        text = " or ".join(f"{self.name} == {self._term(number)}" for number in numbers.tolist())
        return self._note(f"({text})", [self], np.isin(self.example, numbers))

    def _different(self, return_inverse: bool = False, return_counts: bool = False, **more: Any) -> Any:
        """np.unique of whole numbers: how many there are, and counts[inverse]."""
        if more or not self.per_row or self.example.dtype != np.int64:
            self.tape.beyond()
        found: list[_OfDifferent] = [Different(self)]
        found += [kind(self) for kind, wanted in ((Inverse, return_inverse), (Counts, return_counts)) if wanted]
        return found[0] if len(found) == 1 else tuple(found)

    def __setitem__(self, mask: Any, value: Any) -> None:  # type: ignore[override]
        """x[mask] = number, or x[order] = values for the order of a sort"""
        if isinstance(mask, Noted) and mask.name in self.tape.inverse:
            self._put_in_order(mask, value)
            return
        fits = isinstance(mask, Noted) and mask.per_row and mask.example.dtype.kind == "b" and self.per_row
        if not fits or np.asarray(_example_of(value)).ndim or self.example.dtype != np.float64:
            self.tape.beyond()
        self._put_into(self, self.__array_function__(np.where, (), (mask, np.float64(1.0) * value, self), {}))

    def _put_in_order(self, order: Noted, value: Any) -> None:
        if not isinstance(value, Noted) or not value.per_row or not self.per_row:
            self.tape.beyond()
        places = Noted(self.tape, self.tape.inverse[order.name], True, np.argsort(order.example))
        found = value[places]
        whole = self.example.dtype == np.float64 and found.example.dtype == np.int64
        self._put_into(self, found.astype(float) if whole else found)

    def filled(self, example: NDArray[Any]) -> Noted:
        """A new array of one and the same number."""
        if example.shape != (3,) or example.dtype not in NUMBER_TYPES:
            self.tape.beyond()
        return self.tape.note(self._term(example[0]), [], example, per_row=True)

    def counted(self, example: NDArray[Any]) -> Noted:
        """0, 1, 2, ... for all rows."""
        if example.dtype != np.int64 or example.tolist() != [0, 1, 2]:
            self.tape.beyond()
        found = self.tape.note("numpy.int64(index)", [], example, per_row=True, fixed=False)
        self.tape.numbered.add(found.name)
        return found

    def astype(self, kind: Any) -> Noted:
        """To floating-point numbers."""
        if kind not in (float, np.float64, "float64") or not self.per_row:
            self.tape.beyond()
        return self._note(f"numpy.float64({self.name})", [self], self.example.astype(float))

    def copy(self) -> Noted:
        """Another array of the same values."""
        return Noted(self.tape, self.name, self.per_row, self.example)

    def _reduced(self, how: str, *options: Any, **more: Any) -> Any:
        """What is made of all rows, by numpy's name for it."""
        truth = self.example.dtype.kind == "b" if self.per_row else False
        fits = how in ("any", "all", "sum", "mean") if truth else how not in ("any", "all")
        if options or more or not self.per_row or not fits:
            self.tape.beyond()
        if how in ("any", "all"):
            return np.not_equal(self.sum(), 0) if how == "any" else np.equal((~self).sum(), 0)
        if how in ("std", "var"):
            apart = self - self.mean()
            squared = (apart * apart).mean()
            return squared if how == "var" else np.sqrt(squared)
        if how == "median":
            return self.tape.note(self._stored_type(), [self], np.median(self.example), reduces=how)
        return self.tape.note(self.example.dtype.name, [self], getattr(self.example, how)(), reduces=how)

    sum, mean = partialmethod(_reduced, "sum"), partialmethod(_reduced, "mean")
    max, min = partialmethod(_reduced, "max"), partialmethod(_reduced, "min")
    std, var = partialmethod(_reduced, "std"), partialmethod(_reduced, "var")
    any, all = partialmethod(_reduced, "any"), partialmethod(_reduced, "all")

    def _stored_type(self) -> str:
        """The type of an array that can hold it."""
        return "float64" if self.example.dtype == np.float64 else "int64"

    def _note(self, text: str, values: list[Any], example: Any) -> Noted:
        if np.asarray(example).dtype not in NUMBER_TYPES:
            self.tape.beyond()
        found = self.tape.note(text, values, example)
        if not found.per_row and np.ndim(example):
            self.tape.beyond()
        return found

    def _term(self, value: Any) -> str:
        """A value as it stands in an expression."""
        if isinstance(value, Noted) and value.tape is self.tape:
            return value.name
        if isinstance(value, np.float64 | np.int64 | np.bool_):
            value = value.item()
        if type(value) is float:
            return repr(value).replace("inf", "numpy.inf").replace("nan", "numpy.nan")
        if type(value) is bool or (type(value) is int and abs(value) < LARGEST):
            return repr(value)
        return self.tape.beyond()

    def _check_python_numbers(self, name: str, inputs: tuple[Any, ...], examples: list[Any]) -> None:
        """Whole numbers have no end in Python, and a division by zero is an error there."""
        divisor = inputs[-1]
        sure = divisor.name == "count" if isinstance(divisor, Noted) else divisor != 0
        whole = all(type(one) is int for one in examples)
        divides = sure and (name == "divide" or (whole and name in ("floor_divide", "remainder")))
        known = name in WITH_PYTHON_NUMBERS or divides or (name == "multiply" and not whole)
        if not known or any(type(one) is bool for one in examples):
            self.tape.beyond()

    def _put_into(self, target: Any, found: Noted) -> Any:
        """x += y and the like: every name of the array sees it."""
        same = isinstance(target, Noted) and target.per_row and found.example.dtype == target.example.dtype
        if not same:
            self.tape.beyond()
        target.name, target.example = found.name, found.example
        return target


class Rows(_StandIn):
    """The rows to be scored; they select columns, and have a length."""

    count: Noted

    @property
    def size(self) -> Noted:
        """How many there are."""
        return self.count


class _OfDifferent(_StandIn):
    """Something numpy knows of the different numbers among the rows."""

    def __init__(self, of: Noted) -> None:
        super().__init__(of.tape)
        self.of = of.copy()


class Different(_OfDifferent):
    """These numbers themselves; only how many there are is known."""

    @property
    def size(self) -> Noted:
        """How many there are."""
        sizes = self.tape.note("int64", [self.of], self.of.example, reduces="sizes")
        return self.tape.note(f"{sizes.name}_different", [], len(np.unique(self.of.example)), fixed=False)


class Inverse(_OfDifferent):
    """For each row, which of them it has."""


class Counts(_OfDifferent):
    """How often each of them is there; with `Inverse`, for each row."""

    def __getitem__(self, inverse: Any) -> Noted:  # type: ignore[override]
        if type(inverse) is not Inverse or inverse.of.name != self.of.name:
            self.tape.beyond()
        _, place, counts = np.unique(self.of.example, return_inverse=True, return_counts=True)
        return self.tape.note("int64", [self.of], counts[place], reduces="sizes")


class Numpy:
    """numpy, but arrays as long as the queue are noted."""

    def __init__(self, count: Noted) -> None:
        self.count = count

    def __getattr__(self, name: str) -> Any:
        function = getattr(SETTLED, name)
        if name not in ("zeros", "ones", "full", "empty", "arange"):
            return function

        def make(shape: Any, *more: Any, **options: Any) -> Any:
            if shape is not self.count:
                return function(shape, *more, **options)
            if name == "arange":
                return self.count.counted(function(3, *more, **options))
            return self.count.filled((np.zeros if name == "empty" else function)(3, *more, **options))

        return make


class Column(_StandIn):
    """A column of the jobs, or a number per user."""

    def __init__(self, tape: Tape, name: str, rows: Rows, example: NDArray[Any], chosen: NDArray[np.int64]) -> None:
        super().__init__(tape)
        self.name, self.rows, self.example, self.chosen = name, rows, example, chosen

    def __getitem__(self, key: Any) -> Noted:  # type: ignore[override]
        if self.name in BY_USER and isinstance(key, Noted) and key.name in self.tape.users:
            return self.tape.note(f"jobs.{self.name}[{key.name}]", [key], self.example[key.example], fixed=False)
        if key is not self.rows or self.name in BY_USER:
            self.tape.beyond()
        found = self.tape.note(f"jobs.{self.name}[row]", [], self.example[self.chosen], per_row=True)
        if self.name == "user":
            self.tape.users.add(found.name)
        return found


def _example_of(value: Any) -> Any:
    return value.example if isinstance(value, Noted) else value
