"""One graph of a model as something with tensors by index, sized, filled, run and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from circlet.artifact.values import as_array, as_strings, unique_names
from circlet.errors import InputError, check_type
from circlet.formats import dumps
from circlet.frontends.tensor_details import Details, tensor_details
from circlet.ir import Graph, Model, Tensor
from circlet.runtime.executor import BoundCall
from circlet.runtime.session import Session
from circlet.stored import Stored

Source = Stored | bytes


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
        self._inputs = {tensor: tensor.static_shape for tensor in self.graph.inputs}
        self._outputs = _outputs(self.graph, options.preserve_all)
        self._positions = {tensor: i for i, tensor in enumerate(self.graph.tensors)}
        self._arrays: dict[Tensor, np.ndarray] = {}
        self._session: Session | None = None
        self._call: BoundCall | _UnboundCall | None = None

    def position(self, tensor: Tensor) -> int:
        """The file's index of a tensor."""
        return self._positions[tensor]

    def tensor(self, index: int) -> Tensor:
        """The tensor of a file's index; InputError for an index that there is not."""
        check_type(index, Integral, "tensor_index", "the index of a tensor")
        count = len(self.graph.tensors)
        if not 0 <= index < count:
            raise InputError(f"there is no tensor {index}", why=f"the graph has {count} tensors")
        return self.graph.tensors[index]

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The size of a tensor now."""
        if tensor in self._arrays:
            return self._arrays[tensor].shape
        return self._inputs.get(tensor, tensor.static_shape)

    def details(self, tensor: Tensor) -> Details:
        """A tensor described as LiteRT describes it."""
        position, shape = self._positions[tensor], self.shape(tensor)
        return tensor_details(tensor, position, shape, self.graph.tensors)

    def resize(self, tensor: Tensor, shape: tuple[int, ...]) -> None:
        """Give an input another size; buffers are gone until `allocate`, if it is another one."""
        if tensor not in self._inputs:
            raise InputError("only inputs can be resized", where=tensor.name)
        if shape == self._inputs[tensor]:
            return
        self._inputs[tensor] = shape
        self._call = None
        self._arrays.clear()

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
            raise InputError("the network is not ready to run", fix="call allocate_tensors()")
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
            raise InputError(
                "a tensor has no data",
                where=tensor.name,
                why=self._why_no_data(),
                fix="call allocate_tensors(), or preserve all tensors to read intermediate ones",
            )
        return array

    def store(self, tensor: Tensor, given: object) -> None:
        """Copy a value of the same type and size into a tensor's memory."""
        if self._call is None:
            raise InputError(
                "a tensor cannot be set yet", where=tensor.name, fix="call allocate_tensors()"
            )
        target, value = self.buffer(tensor), as_array(given, "a value", tensor.name)
        if not target.flags.writeable:
            raise InputError("a constant cannot be set", where=tensor.name)
        if target.dtype.hasobject:
            value = as_strings(value, tensor.name)
        if value.dtype != target.dtype or value.shape != target.shape:
            raise InputError(
                "a value does not fit its tensor",
                where=tensor.name,
                why=f"got {value.dtype} {list(value.shape)}, "
                f"expected {target.dtype} {list(target.shape)}",
            )
        target[...] = value

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
        return Session(source, threads=self._options.threads)


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
