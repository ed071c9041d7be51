"""Sizes that only a run knows, as far as a plan can tell of them: bounds, and which are equal."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeGuard

from circlet.ir import Graph, Op, Tensor
from circlet.ops.operands import known_ints

MADE, SUM, PRODUCT, LEAST, GREATEST = "made", "sum", "product", "least", "greatest"
_MOST_NUMBERS = 32  # elements of a tensor that is looked at as a list of sizes
_LARGEST = 1 << 62
_MOST_TRIALS = 256  # at the sizes that loops of one network change


@dataclass(eq=False)
class Size:
    """A whole number that a run finds out; uses of one object are equal in every run.

    Attributes:
        most: What it never exceeds.
        fewest: What it never falls below.
        form: How it follows from `terms`: MADE for not at all, SUM, PRODUCT, LEAST or GREATEST.
        terms: Other such numbers, and constants; where it is MADE those of which it is one.
    """

    most: int
    fewest: int = 0
    form: str = MADE
    terms: tuple[Number, ...] = ()


Number = int | Size
Numbers = tuple[Number, ...]


def most_of(number: Number) -> int:
    """What a number never exceeds."""
    return number.most if isinstance(number, Size) else number


def fewest_of(number: Number) -> int:
    """What a number never falls below."""
    return number.fewest if isinstance(number, Size) else number


def bounds_of(sizes: Numbers) -> tuple[int, ...]:
    """The sizes that have room for every run, 1 at the least: kernels know no empty loops."""
    return tuple(max(1, size.most) if isinstance(size, Size) else size for size in sizes)


def is_open(numbers: Numbers) -> bool:
    """Whether only a run knows some of the numbers."""
    return any(isinstance(number, Size) for number in numbers)


def leads(sizes: Numbers) -> bool:
    """Whether one axis is open, and those in front of it have one place each."""
    rest = [size for size in sizes if size != 1]
    return bool(rest) and isinstance(rest[0], Size) and not is_open(tuple(rest[1:]))


def spread(shapes: Sequence[Numbers]) -> Numbers | None:
    """Sizes that operands have together; None where a run alone could say whether they fit."""
    rank = max(map(len, shapes))
    made: list[Number] = []
    for axis in range(rank):
        sizes = {shape[axis - rank + len(shape)] for shape in shapes if axis >= rank - len(shape)}
        wide = sizes - {1}
        if len(wide) > 1:
            return None
        made.append(wide.pop() if wide else 1)
    return tuple(made)


_BOUNDS = {SUM: sum, LEAST: min, GREATEST: max, PRODUCT: prod}


@dataclass(frozen=True)
class LoopSize:
    """A size of variables of a loop that its turns change.

    Attributes:
        first: What it is before the first turn.
        turn: What it is before a turn, inside of the loop.
        after: What it is behind that turn.
        last: What it is behind the loop.
    """

    first: Number
    turn: Size
    after: Number
    last: Size


@dataclass(frozen=True)
class LoopSizes:
    """What is known of a loop in which sizes are open.

    Attributes:
        changing: The sizes that turns change.
        turns: How many turns it takes at the most; None where nothing says so.
    """

    changing: tuple[LoopSize, ...]
    turns: int | None


class SizeTable:
    """What is known of open sizes of tensors, and of tensors whose elements are sizes.

    Attributes:
        sizes: The sizes of tensors of which some are open.
        numbers: The elements of small integer tensors of which some are open sizes.
        parts: The elements of tensors that are made of such and hold sizes that are known.
        callers: The op that runs each graph whose tensors are known here.
        zeros: Tensors of flags that say which elements of another tensor are 0.
        loops: The loops in which sizes are open, by their bodies.
    """

    def __init__(self) -> None:
        self.sizes: MutableMapping[Tensor, Numbers] = {}
        self.numbers: MutableMapping[Tensor, Numbers] = {}
        self.parts: MutableMapping[Tensor, Numbers] = {}
        self.callers: MutableMapping[Graph, Op] = {}
        self.zeros: MutableMapping[Tensor, Tensor] = {}
        self.loops: MutableMapping[Graph, LoopSizes] = {}
        self._known: MutableMapping[tuple[object, ...], Size] = {}
        self._trials = [_MOST_TRIALS]

    def forget(self) -> None:
        """Know nothing any more."""
        for name, known in vars(self).items():
            if name != "_trials":
                known.clear()

    def trial(self) -> SizeTable | None:
        """A table to go on in, which leaves this one as it is; None where too many were made."""
        if not self._trials[0]:
            return None
        self._trials[0] -= 1
        made = object.__new__(SizeTable)
        for name, known in vars(self).items():
            setattr(made, name, known if name == "_trials" else ChainMap({}, known))
        return made

    def take_down(self, trial: SizeTable) -> None:
        """Know what a trial of this table found."""
        for name, known in vars(trial).items():
            if name != "_trials":
                getattr(self, name).update(known.maps[0])

    def of(self, tensor: Tensor) -> Numbers | None:
        """The sizes of a tensor; None where nothing bounds one of them."""
        shape = tensor.shape
        if tensor in self.sizes:
            return self.sizes[tensor]
        return shape if tensor.has_rank and _is_static(shape) else None

    def elements(self, tensor: Tensor | None) -> Numbers | None:
        """The elements of an integer tensor as numbers; None where they are not known as such."""
        if tensor is None:
            return None
        if tensor.data is not None:
            return known_ints(tensor) if tensor.elements <= _MOST_NUMBERS else None
        return self.numbers.get(tensor, self.parts.get(tensor))

    def state(self) -> None:
        """Give tensors the shapes that turned out to be the same in every run."""
        for tensor, sizes in list(self.sizes.items()):
            if not is_open(sizes):
                tensor.shape = bounds_of(sizes)
                del self.sizes[tensor]

    def take_over(self, tensor: Tensor, given: Tensor) -> None:
        """Have an input of a graph be what it is called with."""
        sizes, numbers = self.of(given), self.numbers.get(given)
        if sizes is not None and None in tensor.shape:
            self.sizes[tensor] = sizes
        if numbers is not None:
            self.numbers[tensor] = numbers

    def concerns(self, tensor: Tensor) -> bool:
        """Whether a tensor has open sizes, or elements that are."""
        return tensor in self.sizes or tensor in self.numbers or tensor in self.parts

    def joined(self, form: str, terms: Sequence[Number]) -> Number | None:
        """A number that follows from others; equal ones are one object; None for an overflow."""
        if not any(isinstance(term, Size) for term in terms):
            return int(_BOUNDS[form](terms))  # type: ignore[operator]
        kept = _without_neutral(form, terms)
        if len(kept) == 1:
            return kept[0]
        most, fewest = (
            int(_BOUNDS[form](map(end, kept)))  # type: ignore[operator]
            for end in (most_of, fewest_of)
        )
        if form == PRODUCT and any(fewest_of(term) < 0 for term in kept):
            return None
        if most == fewest:
            return most
        if max(abs(most), abs(fewest)) > _LARGEST:
            return None
        return self._known.setdefault(_key(form, kept), Size(most, fewest, form, tuple(kept)))

    def limit(self, size: Size, most: int) -> None:
        """Have what follows from the same numbers as a size never exceed a bound."""
        known = Size(min(size.most, most), size.fewest, size.form, size.terms)
        self._known[_key(size.form, size.terms)] = known


def _key(form: str, terms: Sequence[Number]) -> tuple[object, ...]:
    return (form, *(term if isinstance(term, int) else id(term) for term in terms))


def _without_neutral(form: str, terms: Sequence[Number]) -> list[Number]:
    """The terms that matter: no 0 of a sum, no 1 of a product, no bound that is always kept."""
    if form in (SUM, PRODUCT):
        neutral = 0 if form == SUM else 1
        kept = [term for term in terms if not (isinstance(term, int) and term == neutral)]
        return kept or [neutral]
    distinct = list(dict.fromkeys(terms))
    if form == LEAST:
        limit = min(most_of(term) for term in distinct)
        kept = [term for term in distinct if fewest_of(term) < limit or most_of(term) == limit]
    else:
        limit = max(fewest_of(term) for term in distinct)
        kept = [term for term in distinct if most_of(term) > limit or fewest_of(term) == limit]
    return _first_of_the_limit(kept, form, limit)


def _first_of_the_limit(terms: list[Number], form: str, limit: int) -> list[Number]:
    """Without a constant at the limit, where some other term keeps it as well."""
    others = [term for term in terms if term != limit]
    end = most_of if form == LEAST else fewest_of
    return others if any(end(term) == limit for term in others) else terms


def _is_static(shape: tuple[int | None, ...]) -> TypeGuard[tuple[int, ...]]:
    return None not in shape
