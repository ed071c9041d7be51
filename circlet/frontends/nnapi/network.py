"""What a compilation makes of a model: sessions, and calls of them that executions take up."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_

import numpy as np

from circlet.artifact.cache import Cache
from circlet.artifact.values import unique_names
from circlet.errors import FormatError, GraphError, UnsupportedOpsError
from circlet.formats.nnapi.description import Description, Dims
from circlet.formats.nnapi.identity import identity_of
from circlet.formats.nnapi.lower import lower
from circlet.frontends.nnapi.arguments import Place
from circlet.ir import Model
from circlet.options import Options
from circlet.runtime.calls import BoundCall, is_copied
from circlet.runtime.opening import ModelSource
from circlet.runtime.session import Session

_MOST_VARIANTS = 16
Variant = tuple[tuple[Dims, ...], frozenset[int]]


class Prepared:
    """A session, and calls of it that no execution uses now.

    Attributes:
        session: The session.
        shapes: Those of the outputs, -1 where only a run tells a size.
        is_static: Whether the sizes of all outputs are known before a run.
        is_small: Whether copying what it reads and writes costs less than binding it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.is_static = not any(value.is_dynamic for value in session.outputs)
        self.shapes = [value.shape for value in session.outputs]
        self._idle: list[BoundCall] = []
        self._copying: list[BoundCall] = []
        values = [*session.inputs, *session.outputs]
        self.is_small = self.is_static and all(map(is_copied, values))

    def take_copying(self) -> BoundCall:
        """A call on arrays of its own, for executions that copy theirs."""
        try:
            return self._copying.pop()
        except IndexError:
            inputs, outputs = self.session.inputs, self.session.outputs
            arrays = [[value.empty() for value in side] for side in (inputs, outputs)]
            return self.session.bind(*arrays)

    def give_copying(self, call: BoundCall) -> None:
        """Have such a call be taken up by another execution."""
        self._copying.append(call)

    def take(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> BoundCall:
        """A call that reads and writes these arrays, which fit and lie apart."""
        try:
            call = self._idle.pop()
        except IndexError:
            return self.session.bind(inputs, outputs)
        call.rebind(inputs, outputs)
        return call

    def take_same(self, inputs: Sequence[object], outputs: Sequence[object]) -> BoundCall | None:
        """The call that was given back last, where it reads and writes the very same arrays."""
        try:
            call = self._idle.pop()
        except IndexError:
            return None
        if all(map(is_, call.inputs, inputs)) and all(map(is_, call.outputs, outputs)):
            return call
        self._idle.append(call)
        return None

    def give(self, call: BoundCall) -> None:
        """Have a call be taken up by another execution."""
        self._idle.append(call)


class Network:
    """A compiled model, for the sizes that it states and for those that executions bring.

    Args:
        description: The model.
        lowered: What it means; raises `UnsupportedOpsError` where that is not known.
        options: How it is compiled.
        token: What names it in a cache besides what it says.
        cache: Where compiled artifacts are kept; None for the cache of the environment.
        threads: Threads of a run; None for the cores that may be used.

    Raises:
        CircletError: It cannot be compiled.

    Attributes:
        inputs, outputs: What callers give and get.
        main: The network at the sizes that the model states; None where too few are stated.
        copied: The same where it is small and its outputs have just the sizes that are stated.
    """

    def __init__(
        self,
        description: Description,
        lowered: Callable[[], Model],
        options: Options,
        *,
        token: bytes = b"",
        cache: Cache | None = None,
        threads: int | None = None,
    ) -> None:
        self._description, self._options = description, options
        self._token, self._cache, self._threads = token, cache, threads
        self.inputs = self._places(description.inputs)
        self.outputs = self._places(description.outputs)
        self._lock = allocate_lock()
        self._variants: dict[Variant, Prepared] = {}
        self.main = self._stated(lowered)
        self.copied = self._copied()

    def variant(self, dims: tuple[Dims, ...], omitted: frozenset[int]) -> Prepared:
        """The network for some sizes of its inputs, where those at some places are left out.

        Raises:
            CircletError: It does not work for these sizes.
        """
        if self.main is not None and not omitted and self._is_stated(dims):
            return self.main
        with self._lock:
            key = dims, omitted
            found = self._variants.pop(key, None) or Prepared(self._session_for(dims, omitted))
            self._variants[key] = found
            while len(self._variants) > _MOST_VARIANTS:
                del self._variants[next(iter(self._variants))]
            return found

    def _copied(self) -> Prepared | None:
        main = self.main
        if main is None or not main.is_small:
            return None
        return main if [place.dims for place in self.outputs] == main.shapes else None

    def _stated(self, lowered: Callable[[], Model]) -> Prepared | None:
        try:
            return Prepared(self._opened(self._description, lowered))
        except (FormatError, GraphError, UnsupportedOpsError):
            if all(place.is_sized for place in self.inputs):
                raise
            return None  # it may work once executions state sizes, or leave operands out

    def _is_stated(self, dims: tuple[Dims, ...]) -> bool:
        return all(p.dims == given for p, given in zip(self.inputs, dims, strict=True))

    def _session_for(self, dims: tuple[Dims, ...], omitted: frozenset[int]) -> Session:
        if self.main is not None and not omitted:
            names = unique_names(self.main.session.inputs)
            return self.main.session.resized(dict(zip(names, dims, strict=True)))
        operands = list(self._description.operands)
        for place, index in enumerate(self._description.inputs):
            changes = {"is_omitted": True} if place in omitted else {"dims": dims[place]}
            operands[index] = replace(operands[index], **changes)
        given = [i for n, i in enumerate(self._description.inputs) if n not in omitted]
        description = replace(self._description, operands=operands, inputs=tuple(given))
        return self._opened(description, lambda: lower(description))

    def _opened(self, description: Description, make: Callable[[], Model]) -> Session:
        identity = f"nnapi {identity_of(description)} {self._token.hex()}"
        source = ModelSource(identity, make, self._cache)
        return Session.of(source, self._options, threads=self._threads)

    def _places(self, indices: Sequence[int]) -> list[Place]:
        return [Place(self._description.operands[index]) for index in indices]
