"""Stand-ins for what an order function is called with: they compute nothing and note what numpy is asked to do.

policy/recording.py calls orders with them. Operators and element-wise functions are noted here; whatever else numpy
does with arrays is looked up in what policy/vocabulary.py understands. What is not known to be the same in compiled
code is refused, and the tape is spoilt for good, also where the function catches the exception.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cohabit.policy.one_by_one import BY_USER

LARGEST = 2**62  # whole numbers below it can be added to a time
SMALL = 1000  # times the length of a queue
MOST_BRANCHES = 6
NUMBER_TYPES = (np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64))
# What needs all rows at once, and gives a value per row; `dense` numbers what stays the same, once for all rows
WHOLE = ("places", "kept", "sizes", "cubes", "sorted", "below", "upto", "running", "totals", "dense")
# What Python's own numbers, the time and the parameters, may go through: there it does as numpy does
WITH_PYTHON_NUMBERS = (
    "add", "subtract", "negative", "maximum", "minimum", "greater", "greater_equal", "less", "less_equal", "equal",
    "not_equal",
)  # fmt: skip
# What no operator of Python does: a number of Python's own becomes one of numpy's
OF_A_NUMBER = ("sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "tanh")
# What policy/vocabulary.py understands, by numpy's function, by the name of a method, and of a ufunc with its `reduce`,
# `accumulate` or `__call__`: each is called with the tape and what numpy would be called with.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
OWN_UFUNCS: dict[tuple[str, str], Callable[..., Any]] = {}
WITH_TRUTHS = ("bitwise_and", "bitwise_or", "logical_and", "logical_or", "logical_not")


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

    count: Noted  # how many rows there are

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = answers
        self.branches: list[Branch] = []
        self.path = "v"  # names say by which answers a value was reached
        self.lines: list[Line] = []
        self.known: dict[tuple[Any, ...], Line] = {}  # lines by what they say: nothing is computed twice
        self.users: set[str] = set()  # values that are jobs.user[rows]
        self.fixed: set[str] = set()  # the same in every pass: parameters, and what is made of them and columns
        self.inverse: dict[str, str] = {}  # orders of a sort and the places in it, by each other
        self.numbered: set[str] = set()  # values that are 0, 1, 2, ...
        self.lengths = {"count"}  # numbers made of the length of the queue and of nothing else
        self.spoilt = False  # also where the function itself catches the exception

    def beyond(self) -> NoReturn:
        """This cannot be recorded."""
        self.spoilt = True
        raise Beyond

    def ask(self, understood: Callable[..., Any] | None, *values: Any, **options: Any) -> Any:
        """What is understood of these; whatever goes wrong, the tape is spoilt."""
        if understood is None:
            self.beyond()
        try:
            return understood(self, *values, **options)
        except Exception:
            self.spoilt = True
            raise

    def note(
        self, text: str, values: list[Any], example: Any, per_row: bool = False, reduces: str = "", fixed: bool = True
    ) -> Noted:
        """A new value, computed from those."""
        noted = [value for value in values if isinstance(value, Noted)]
        per_row = reduces in WHOLE or (not reduces and (per_row or any(value.per_row for value in noted)))
        uses, kind = tuple(value.name for value in noted), np.asarray(example).dtype.name
        fixed = fixed and reduces in ("", "dense") and self.fixed.issuperset(uses)
        said = (text, uses, per_row, reduces, fixed, kind)
        if said not in self.known:
            self.known[said] = Line(f"{self.path}{len(self.lines)}", *said)
            self.lines.append(self.known[said])
        line = self.known[said]
        if fixed:
            self.fixed.add(line.name)
        return Noted(self, line.name, per_row, example)

    def number(self, text: str, values: list[Any], example: Any) -> Noted:
        """The same for what must be a number of a known type, one or one per row."""
        if np.asarray(example).dtype not in NUMBER_TYPES:
            self.beyond()
        found = self.note(text, values, example)
        if not found.per_row and np.ndim(example):
            self.beyond()
        return found

    def term(self, value: Any) -> str:
        """A value as it stands in an expression."""
        if isinstance(value, Noted) and value.tape is self:
            return value.name
        if isinstance(value, np.float64 | np.int64 | np.bool_):
            value = value.item()
        if type(value) is float:
            return repr(value).replace("inf", "numpy.inf").replace("nan", "numpy.nan")
        if type(value) is bool or (type(value) is int and abs(value) < LARGEST):
            return repr(value)
        return self.beyond()

    def per_row(self, value: Any, kinds: str = "bif") -> Noted:
        """The value, if it is one per row of such a kind."""
        if not isinstance(value, Noted) or not value.per_row or value.example.dtype.kind not in kinds:
            self.beyond()
        return value

    def decide(self, name: str) -> bool:
        """Whether this number is to be taken for true."""
        if len(self.branches) == MOST_BRANCHES:
            self.beyond()
        place = len(self.branches)
        answer = self.answers[place] if place < len(self.answers) else True
        self.branches.append(Branch(len(self.lines), name))
        self.path += "y" if answer else "n"
        return answer


class StandIn:
    """Whatever Python or numpy may ask of an array, refused."""

    is_asked_first = False  # about what it and an array of the queue come to

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


class Noted(np.lib.mixins.NDArrayOperatorsMixin, StandIn):
    """A value of the recording; `example` is what it would be for a few jobs, and tells its type."""

    def __init__(self, tape: Tape, name: str, per_row: bool, example: Any) -> None:
        super().__init__(tape)
        self.name, self.per_row, self.example = name, per_row, example

    __hash__ = StandIn._refuse

    def __bool__(self) -> bool:  # type: ignore[override]
        return self.tape.beyond() if self.per_row else self.tape.decide(self.name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` sees."""
        return type(self.example)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS and self.per_row:
            return partial(self.tape.ask, METHODS[name], self)
        return super().__getattr__(name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(one, StandIn) and one.is_asked_first for one in inputs):
            return NotImplemented
        own = OWN_UFUNCS.get((ufunc.__name__, method))
        if method != "__call__" or own:
            return self.tape.ask(own, *inputs, **options)
        target = options.pop("out", (None,))[0]
        known = getattr(np, ufunc.__name__, None) is ufunc and ufunc.nout == 1 and ufunc.signature is None
        if options or not known or ufunc.nin != len(inputs):
            self.tape.beyond()
        terms, examples = [self.tape.term(value) for value in inputs], [example_of(value) for value in inputs]
        with np.errstate(all="ignore"):
            example = ufunc(*examples)
        if all(type(one) in (bool, int, float) for one in examples) and ufunc.__name__ not in OF_A_NUMBER:
            self._check_python_numbers(ufunc.__name__, inputs, examples)
            example = example.item()
        if ufunc is np.power and self._to_be_cubed(*inputs):
            found = self.tape.note("float64", [inputs[0]], example, reduces="cubes")
        else:
            room = "powers" if self._has_its_own_form(ufunc, inputs, example) else "numpy"
            found = self.tape.number(f"{room}.{ufunc.__name__}({', '.join(terms)})", list(inputs), example)
        if self.tape.lengths.issuperset(one.name for one in inputs if isinstance(one, Noted)):
            self.tape.lengths.add(found.name)
        return found if target is None else self.put_into(target, found)

    def _has_its_own_form(self, ufunc: np.ufunc, inputs: tuple[Any, ...], example: Any) -> bool:
        """Whether core/powers.py does it: remainders, and fractions to the power of one number."""
        if np.ndim(example) == 0 or np.asarray(example).dtype != np.float64:
            return False
        exponent = inputs[-1]
        return ufunc is np.remainder or (ufunc is np.power and not (isinstance(exponent, Noted) and exponent.per_row))

    def _to_be_cubed(self, base: Any, exponent: Any) -> bool:
        """Fractions that change, to the third power."""
        if not isinstance(base, Noted) or not base.per_row or base.name in self.tape.fixed:
            return False
        return base.example.dtype == np.float64 and type(exponent) in (int, float) and exponent == 3

    def __pow__(self, exponent: Any) -> Any:
        if self.per_row and type(exponent) in (int, float) and exponent in (2, 0.5):  # numpy's own shortcuts
            return np.square(self) if exponent == 2 else np.sqrt(self)
        return super().__pow__(exponent)

    def __ipow__(self, exponent: Any) -> Any:
        return self.put_into(self, self**exponent)

    def __array_function__(self, function: Any, _types: Any, values: Any, options: Any) -> Any:
        return self.tape.ask(FUNCTIONS.get(function), *values, **options)

    def __getitem__(self, key: Any) -> Any:
        return self.tape.ask(FUNCTIONS[operator.getitem], self, key)

    def __setitem__(self, key: Any, value: Any) -> None:  # type: ignore[override]
        self.tape.ask(FUNCTIONS[operator.setitem], self, key, value)

    def __floor__(self) -> Any:
        return self.tape.ask(FUNCTIONS[math.floor], self)

    def __ceil__(self) -> Any:
        return self.tape.ask(FUNCTIONS[math.ceil], self)

    def __round__(self, *digits: Any) -> Any:
        return self.tape.ask(FUNCTIONS[round], self, *digits)

    @property
    def size(self) -> Noted:
        """How many rows there are."""
        return self.tape.per_row(self).tape.count

    @property
    def shape(self) -> tuple[Noted]:
        """The same, as numpy has it."""
        return (self.size,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what type the numbers are."""
        found: np.dtype[Any] = self.tape.per_row(self).example.dtype
        return found

    @property
    def ndim(self) -> int:
        """It is no table."""
        return int(self.per_row)

    def copy(self) -> Noted:
        """Another array of the same values."""
        return Noted(self.tape, self.name, self.per_row, self.example)

    def stored_type(self) -> str:
        """The type of an array that can hold it."""
        return "float64" if self.example.dtype == np.float64 else "int64"

    def _check_python_numbers(self, name: str, inputs: tuple[Any, ...], examples: list[Any]) -> None:
        """Whole numbers have no end in Python, and a division by zero is an error there."""
        divisor = inputs[-1]
        sure = divisor.name == "count" if isinstance(divisor, Noted) else divisor != 0
        whole = all(type(one) is int for one in examples)
        divides = sure and (name == "divide" or (whole and name in ("floor_divide", "remainder")))
        some = all(one.name == "count" if isinstance(one, Noted) else abs(one) < SMALL for one in inputs)
        known = name in WITH_PYTHON_NUMBERS or divides or (name == "multiply" and (some or not whole))
        truths = sum(type(one) is bool for one in examples)
        if truths != (len(examples) if name in WITH_TRUTHS else 0) or not (known or truths):
            self.tape.beyond()

    def put_into(self, target: Any, found: Noted) -> Any:
        """x += y and the like: every name of the array sees it."""
        same = isinstance(target, Noted) and target.per_row and found.example.dtype == target.example.dtype
        if not same:
            self.tape.beyond()
        target.name, target.example = found.name, found.example
        return target


class Rows(StandIn):
    """The rows to be scored; they select columns, and have a length."""

    @property
    def size(self) -> Noted:
        """How many there are."""
        return self.tape.count

    @property
    def shape(self) -> tuple[Noted]:
        """The same, as numpy has it."""
        return (self.size,)


class Column(StandIn):
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


def example_of(value: Any) -> Any:
    """What it would be for a few jobs."""
    return value.example if isinstance(value, Noted) else value
