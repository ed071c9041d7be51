"""One graph of a model as something with tensors by index, sized, filled, run and read."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.artifact.values import as_array, as_strings, unique_names
from circlet.errors import CircletError, InputError
from circlet.formats import dumps
from circlet.frontends.builtin_errors import also, raised_as
from circlet.frontends.first_compile import first_session
from circlet.frontends.tensor_details import Details, litert_type, tensor_details
from circlet.ir import Graph, Model, Tensor
from circlet.runtime.calls import BoundCall
from circlet.runtime.session import Session
from circlet.stored import Stored
from circlet.words import counted

Source = Stored | bytes
_UNALLOCATED = "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first"


@dataclass(frozen=True)
class RunOptions:
    """How the graphs of one model are run."""

    threads: int = 1
    preserve_all: bool = False


class _UnboundCall:
    """A session with outputs whose sizes only a run decides: each run makes new ones."""

    def __init__(self, session: Session, inputs: Sequence[np.ndarray]) -> None:
        self._session, self._inputs = session, inputs
        self.outputs: tuple[np.ndarray, ...] = ()
        self.reset = session.reset

    def run(self) -> None:
        self.outputs = tuple(self._session.run(self._inputs).values())


class Subgraph:
    """A graph with its buffers; sessions are made when they are needed.

    Attributes:
        graph: The graph.
        index: Its position in the model.
    """

    def __init__(self, model: Model, index: int, source: Source, options: RunOptions) -> None:
        self.graph: Graph = model.graphs[index]
        self.index = index
        self._model = model
        self._source = source
        self._options = options
        given = [tensor for tensor in self.graph.inputs if not tensor.is_constant]
        self._inputs = {tensor: tensor.static_shape for tensor in given}
        self._outputs = _outputs(self.graph, options.preserve_all)
        self._positions = {tensor: i for i, tensor in enumerate(self.graph.tensors)}
        self._arrays: dict[Tensor, np.ndarray] = {}
        self._session: Session | None = None
        self._call: BoundCall | _UnboundCall | None = None

    def position(self, tensor: Tensor) -> int:
        """The file's index of a tensor."""
        return self._positions[tensor]

    def tensor(self, index: int, kind: type[Exception] = ValueError) -> Tensor:
        """The tensor of a file's index; an error that is a `kind` for one that there is not."""
        index, count = checked_index(index, "tensor_index"), len(self.graph.tensors)
        if not 0 <= index < count:
            error = InputError(
                f"there is no tensor {index}", why=f"the graph has {counted(count, 'tensor')}"
            )
            raise also(
                error, kind, f"Invalid tensor index {index} exceeds max tensor index {count}"
            )
        return self.graph.tensors[index]

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The size of a tensor now."""
        if tensor in self._arrays:
            return self._arrays[tensor].shape
        return self._inputs.get(tensor, tensor.static_shape)

    def details(self, tensor: Tensor) -> Details:
        """A tensor described as LiteRT describes it."""
        position, shape = self._positions[tensor], self.shape(tensor)
        return tensor_details(tensor, position, shape)

    def resize(self, tensor: Tensor, shape: tuple[int, ...]) -> None:
        """Give an input another size; buffers are gone until `allocate`, if it is another one."""
        self.check_is_input(tensor)
        if shape == self._inputs[tensor]:
            return
        self._inputs[tensor] = shape
        self._call = None
        self._arrays.clear()

    def check_is_input(self, tensor: Tensor) -> None:
        """InputError for a tensor that is no input."""
        if tensor not in self._inputs:
            raise InputError("only inputs can be resized", where=tensor.name)

    def allocate(self) -> None:
        """Make a session and buffers for the sizes of now, if there are none."""
        if self._call is not None:
            return
        session = self._sized_session()
        inputs = [value.empty() for value in session.inputs]
        for value, array in zip(session.inputs, inputs, strict=True):
            array[...] = b"" if value.is_text else np.zeros((), array.dtype)
        self._arrays = dict(zip(self._inputs, inputs, strict=True))
        if any(value.is_dynamic for value in session.outputs):
            self._call = _UnboundCall(session, inputs)
        else:
            self._call = session.bind(inputs)
        self._publish()

    def invoke(self) -> None:
        """Run on the buffers."""
        if self._call is None:
            error = InputError("the network is not ready to run", fix="call allocate_tensors()")
            raise also(error, RuntimeError, "Invoke called on model that is not ready.")
        self._call.run()
        self._publish()

    def reset(self) -> None:
        """Set variables back to their start."""
        if self._call is not None:
            self._call.reset()

    def _publish(self) -> None:
        """Make the call's outputs known; an output that is an input too stays the input."""
        assert self._call is not None
        for tensor, array in zip(self._outputs, self._call.outputs, strict=False):
            if tensor not in self._inputs:
                self._arrays[tensor] = array

    def buffer(self, tensor: Tensor) -> np.ndarray:
        """The memory of an input or output; read-only for a constant.

        Raises:
            InputError: There is none, or none yet.
        """
        array = self._arrays.get(tensor, tensor.data)
        if array is None:
            raise self._no_data(tensor)
        return array

    def store(self, tensor: Tensor, given: object) -> None:
        """Copy a value of the same type and size into a tensor's memory.

        Raises:
            ValueError: It does not fit, the tensor is a constant, or nothing is allocated.
        """
        with raised_as(ValueError, "Failed to convert value into readable tensor."):
            value = as_array(given, "a value", tensor.name)
        self._check_fits(tensor, value)
        target = self._arrays.get(tensor, tensor.data)
        if self._call is None or target is None:
            error = InputError("a tensor cannot be set", where=tensor.name, why=self._why_no_data())
            raise also(error, ValueError, _UNALLOCATED)
        if not target.flags.writeable:
            raise also(InputError("a constant cannot be set", where=tensor.name), ValueError)
        if not target.dtype.hasobject:
            target[...] = value
        elif value.ndim == 0 and value.dtype.kind == "S":
            target[()] = value.tobytes()  # numpy would take its last zero bytes for padding
        else:
            with raised_as(ValueError):
                target[...] = as_strings(value, tensor.name)

    def _check_fits(self, tensor: Tensor, value: np.ndarray) -> None:
        index, shape = self._positions[tensor], self.shape(tensor)
        stored = self._arrays.get(tensor)
        dtype = tensor.dtype.in_arrays if stored is None else stored.dtype
        got, expected = litert_type(value.dtype), litert_type(dtype or value.dtype)
        if got == expected and value.shape == shape:
            return
        sentence = f"Got value of type {got} but expected type {expected} for input {index}"
        sentence += f", name: {tensor.name}"
        if got == expected:
            sentence = _dimension_mismatch(value.shape, shape, index)
        error = InputError(
            "a value does not fit its tensor",
            where=tensor.name,
            why=f"got {value.dtype} {list(value.shape)}, expected {dtype} {list(shape)}",
        )
        raise also(error, ValueError, f"Cannot set tensor: {sentence}")

    def _no_data(self, tensor: Tensor) -> CircletError:
        error = InputError(
            "a tensor has no data",
            where=tensor.name,
            why=self._why_no_data(),
            fix="call allocate_tensors(), or preserve all tensors to read intermediate ones",
        )
        return also(error, ValueError, "Tensor data is null. Run allocate_tensors() first")

    def _why_no_data(self) -> str:
        if self._call is None:
            return "nothing is allocated"
        return "it is computed inside the network and not kept"

    def _sized_session(self) -> Session:
        """The session for the input sizes of now."""
        if self._session is None:
            self._session = self._new_session()
        known = zip(unique_names(self._session.inputs), self._session.inputs, strict=True)
        wanted = zip(known, self._inputs.values(), strict=True)
        changed = {name: shape for (name, value), shape in wanted if value.shape != shape}
        if changed:
            self._session = self._session.resized(changed)
        return self._session

    def _new_session(self) -> Session:
        plain = self.index == 0 and len(self._outputs) == len(self.graph.outputs)
        source = self._source if plain else _alone(self._model, self.index, self._outputs)
        return first_session(source, self._options.threads)


def checked_index(given: object, name: str) -> int:
    """An index as an int; an InputError that is a TypeError for what is none."""
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError as error:
        coded = InputError.mistyped(name, given, "an index, as a whole number")
        raise also(coded, TypeError, "incompatible function arguments.") from error


def _dimension_mismatch(got: tuple[int, ...], expected: tuple[int, ...], index: int) -> str:
    if len(got) != len(expected):
        sizes, where = (len(got), len(expected)), ""
    else:
        axis = next(i for i, pair in enumerate(zip(got, expected, strict=True)) if len({*pair}) > 1)
        sizes, where = (got[axis], expected[axis]), f"dimension {axis} of "
    counts = f"Got {sizes[0]} but expected {sizes[1]}"
    return f"Dimension mismatch. {counts} for {where}input {index}."


def _outputs(graph: Graph, preserve_all: bool) -> list[Tensor]:
    """The graph's outputs, and every other tensor that an op writes if all are to be kept."""
    found = list(graph.outputs)
    if preserve_all:
        written = dict.fromkeys(tensor for op in graph.ops for tensor in op.outputs)
        known = set(found)
        found += [t for t in written if t not in known and t.dtype.in_arrays]
    return found


def _alone(model: Model, index: int, outputs: Sequence[Tensor]) -> bytes:
    """The bytes of a model whose main graph is graph `index`, with these outputs."""
    graph = model.graphs[index]
    main = Graph(graph.name, graph.inputs, list(outputs), graph.ops, graph.tensors, graph.extra)
    others = [other for other in model.graphs if other is not graph]
    return dumps(Model([main, *others], source_format=model.source_format), origins=False)
