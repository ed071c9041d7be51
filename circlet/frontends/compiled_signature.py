"""One signature of a `CompiledModel`: its sizes, its session, and runs on the caller's buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from circlet.artifact.values import Value, is_plain, unique_names
from circlet.errors import CircletError, InputError
from circlet.frontends.builtin_errors import also
from circlet.frontends.first_compile import first_session
from circlet.ir import Graph, Model, Signature, Tensor
from circlet.runtime.calls import BoundCall
from circlet.runtime.session import Session
from circlet.stored import Stored

UNNAMED = "<placeholder signature>"
Details = dict[str, Any]


def signatures_of(model: Model) -> list[Signature]:
    """The model's signatures; one of the main graph's tensor names where it has none.

    Inputs that are constants are left out: nobody gives them.
    """
    if model.signatures:
        return [_in_order(signature) for signature in model.signatures]
    graph = model.graphs[0]
    given = [tensor for tensor in graph.inputs if not tensor.is_constant]
    return [Signature(UNNAMED, graph, _named(given), _named(graph.outputs))]


def _in_order(signature: Signature) -> Signature:
    """The signature with its names in the order of its graph's inputs and outputs."""
    graph = signature.graph
    given = {name: tensor for name, tensor in signature.inputs.items() if not tensor.is_constant}
    inputs = _sorted(given, graph.inputs)
    return Signature(signature.key, graph, inputs, _sorted(signature.outputs, graph.outputs))


def _sorted(named: Mapping[str, Tensor], order: Sequence[Tensor]) -> dict[str, Tensor]:
    places = {tensor: place for place, tensor in reversed(list(enumerate(order)))}
    return dict(sorted(named.items(), key=lambda entry: places.get(entry[1], len(order))))


def _named(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return dict(zip(unique_names(tensors), tensors, strict=True))


def refused(error: CircletError, code: int, sentence: str) -> CircletError:
    """A RuntimeError in the words of LiteRT's compiled model."""
    return also(error, RuntimeError, f"CompiledModel error: code={code}, message={sentence}")


class CompiledSignature:
    """A signature with the session that runs it; the session is opened when it is needed.

    Attributes:
        key: The signature's key.
        inputs, outputs: Names in the order of the graph.
    """

    def __init__(self, signature: Signature, source: Stored, threads: int | None) -> None:
        self.key = signature.key
        self.inputs, self.outputs = list(signature.inputs), list(signature.outputs)
        self._signature, self._source, self._threads = signature, source, threads
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._session: Session | None = None
        self._call: BoundCall | None = None

    def session(self) -> Session:
        """The session for the sizes of now.

        Raises:
            RuntimeError: The network cannot be run, or not at these sizes.
        """
        session = self._opened()
        if not self._sizes:
            return session
        try:
            self._session = session.resized(self._sizes)
        except CircletError as error:
            raise refused(error, 3, "Failed to allocate tensors") from error.__cause__
        self._sizes, self._call = {}, None
        return self._session

    def _opened(self) -> Session:
        """The session for the sizes before those that were asked for since."""
        if self._session is None:
            key = "" if self.key == UNNAMED else self.key
            try:
                self._session = first_session(self._source, self._threads, key)
            except CircletError as error:
                raise refused(error, 3, "Failed to allocate tensors") from error.__cause__
        return self._session

    def _shape_of(self, name: str) -> tuple[int, ...]:
        """The size that an input has or is to have."""
        known = self._sizes.get(name)
        return _value(self._opened().inputs, name).shape if known is None else known

    def _found(self, side: str, name: str) -> Value:
        """An input or output as the session knows it; RuntimeError for an unknown name."""
        names: list[str] = getattr(self, side)
        if name not in names:
            what = side.removesuffix("s")
            error = InputError(
                f"the signature has no such {what}", where=name, why=f"it has {names}"
            )
            raise refused(error, 6, f"{what.capitalize()} tensor not found: {name}")
        session = self.session()
        return _value(session.inputs if side == "inputs" else session.outputs, name)

    def details(self, side: str) -> dict[str, Details]:
        """Name, index, type and present shape of each input or output."""
        session = self._opened() if side == "inputs" else self.session()
        values = session.inputs if side == "inputs" else session.outputs
        tensors: dict[str, Tensor] = getattr(self._signature, side)
        found = {}
        for name, tensor in tensors.items():
            value = _value(values, name)
            shape = self._shape_of(name) if side == "inputs" else value.shape
            found[name] = {
                "name": tensor.name,
                "index": _index(self._signature.graph, tensor),
                "dtype": "string" if value.is_text else value.dtype,
                "shape": _known(shape, tensor),
            }
        return found

    def needed_bytes(self, side: str, name: str) -> int:
        """The bytes of an input or output; RuntimeError where there is none."""
        value = self._found(side, name)
        return prod(self._room(side, name)) * np.dtype(value.dtype).itemsize

    def empty(self, side: str, name: str) -> np.ndarray:
        """New memory for an input or output, zero throughout.

        Raises:
            RuntimeError: There is no such tensor, or its elements are strings.
        """
        value = self._found(side, name)
        if value.is_text:
            error = InputError(
                "strings do not fit into a buffer",
                where=name,
                fix="use circlet.Interpreter or circlet.Session",
            )
            raise refused(error, 1, "Unsupported element type")
        if value.is_dynamic:
            return np.zeros(self._room(side, name), value.dtype)
        array = value.empty()
        array[...] = 0
        return array

    def _room(self, side: str, name: str) -> list[int]:
        """Sizes that memory is made for: those of the file where only a run decides."""
        tensors: dict[str, Tensor] = getattr(self._signature, side)
        return _known(self._found(side, name).shape, tensors[name])

    def resize(self, name: str, shape: tuple[int, ...], *, strict: bool) -> None:
        """Give an input another size; with `strict` only where the file leaves it open.

        Raises:
            RuntimeError: It can never have that size.
        """
        tensor = self._signature.inputs[name]
        stated = f"the file has {['?' if size is None else size for size in tensor.shape]}"
        sentence = ""
        if min(shape, default=1) < 1:
            sentence = "Dimensions must be positive."
        elif len(shape) != len(tensor.shape) and tensor.has_rank:
            sentence = "New shape rank does not match current shape rank."
        elif strict and any(
            now not in (None, wanted) for now, wanted in zip(tensor.shape, shape, strict=False)
        ):
            sentence = "New shape is not compatible with current shape."
        if sentence:
            error = InputError(f"an input cannot be of {list(shape)}", where=name, why=stated)
            raise refused(error, 1, sentence)
        self._sizes.pop(name, None)
        if self._shape_of(name) != shape:
            self._sizes[name] = shape

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        """Run on memory by name: read the inputs and write to the start of the outputs.

        Raises:
            RuntimeError: Memory does not fit, or the run failed.
        """
        self._fit_sizes(inputs)
        session = self.session()
        self._check_all_named(session)
        sources = [
            _as_value(inputs[name], value, name, exact=True)
            for name, value in zip(unique_names(session.inputs), session.inputs, strict=True)
        ]
        try:
            if any(value.is_dynamic for value in session.outputs):
                self._run_and_copy(session, sources, outputs)
            else:
                self._run_in_place(session, sources, outputs)
        except CircletError as error:
            raise refused(error, 3, "Failed to invoke the compiled model") from error.__cause__

    def _check_all_named(self, session: Session) -> None:
        """RuntimeError where the signature names not every input of its graph."""
        unnamed = set(unique_names(session.inputs)) - {*self.inputs}
        if unnamed:
            error = InputError(
                "the signature leaves an input without a name",
                where=", ".join(sorted(unnamed)),
                fix="use circlet.Interpreter, which sets inputs by index",
            )
            raise refused(error, 3, "Failed to invoke the compiled model")

    def _fit_sizes(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Take the sizes of buffers, where they are others than those of now."""
        for name, array in inputs.items():
            now = self._shape_of(name)
            if array.shape != now and array.ndim == len(now):
                self.resize(name, array.shape, strict=True)

    def _run_and_copy(
        self,
        session: Session,
        sources: Sequence[np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        results = session.run(sources)
        for name, array in outputs.items():
            result = np.ascontiguousarray(results[name])
            _start_of(array, result.dtype, result.shape, name)[...] = result

    def _run_in_place(
        self,
        session: Session,
        sources: Sequence[np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        targets = [
            _as_value(outputs[name], value, name, exact=False) if name in outputs else value.empty()
            for name, value in zip(unique_names(session.outputs), session.outputs, strict=True)
        ]
        if session.is_stateful:
            self._run_on_own(session, sources, targets)
            return
        call = self._call
        if call is None or not _same([*call.inputs, *call.outputs], [*sources, *targets]):
            call = self._call = session.bind(sources, targets)
        call.run()

    def _run_on_own(
        self,
        session: Session,
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
    ) -> None:
        """Run on buffers that stay bound, as the state does: a new call would start afresh."""
        if self._call is None:
            self._call = session.bind([value.empty() for value in session.inputs])
        for own, given in zip(self._call.inputs, sources, strict=True):
            own[...] = given
        self._call.run()
        for given, own in zip(targets, self._call.outputs, strict=True):
            given[...] = own


def _value(values: Sequence[Value], name: str) -> Value:
    return values[unique_names(values).index(name)]


def _index(graph: Graph, tensor: Tensor) -> int:
    return next(index for index, other in enumerate(graph.tensors) if other is tensor)


def _known(shape: Sequence[int], tensor: Tensor) -> list[int]:
    """Sizes with those of the file in place of what only a run decides."""
    if len(shape) != len(tensor.static_shape):
        return [max(size, 0) for size in shape]
    pairs = zip(shape, tensor.static_shape, strict=True)
    return [stated if size < 0 else size for size, stated in pairs]


def _as_value(array: np.ndarray, value: Value, name: str, *, exact: bool) -> np.ndarray:
    """Memory as the array of a value; RuntimeError where it is of another type or size."""
    dtype = np.dtype(value.dtype)
    wanted = prod(value.shape) * dtype.itemsize
    if array.dtype == dtype and exact and array.nbytes != wanted:
        raise refused(_unfit(array, dtype, value.shape, name), 3, "Failed to register buffer")
    return _start_of(array, dtype, value.shape, name)


def _start_of(array: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], name: str) -> np.ndarray:
    count = prod(shape)
    if array.dtype != dtype or array.size < count or not is_plain(array):
        raise refused(_unfit(array, dtype, shape, name), 3, "Failed to register buffer")
    return array.reshape(-1)[:count].reshape(shape)


def _unfit(array: np.ndarray, dtype: np.dtype, shape: Sequence[int], name: str) -> InputError:
    return InputError(
        "a buffer does not fit its tensor",
        where=name,
        why=f"it holds {array.dtype} {list(array.shape)}, expected {dtype} {list(shape)}",
        fix="use create_input_buffers and create_output_buffers",
    )


def _same(bound: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> bool:
    """Whether arrays of the same shapes lie in the same places."""
    return all(
        one.__array_interface__["data"] == other.__array_interface__["data"]
        for one, other in zip(bound, given, strict=True)
    )
