"""`Interpreter`: LiteRT's Python interface, with Circlet behind it.

A script written for `ai_edge_litert.interpreter` runs with only its import changed. Errors are
coded `CircletError`s that are also the ValueError or RuntimeError that LiteRT raises.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral

import numpy as np

from circlet.errors import InputError, check_type
from circlet.formats import load
from circlet.frontends.builtin_errors import also, raised_as
from circlet.frontends.signature_runner import SignatureRunner
from circlet.frontends.subgraph import RunOptions, Subgraph
from circlet.frontends.tensor_details import Details, element_type
from circlet.ir import Signature, Tensor
from circlet.stored import stored


@enum.unique
class OpResolverType(enum.Enum):
    """LiteRT's choice of kernels; Circlet's are the same for all of them."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


def load_delegate(library: object, options: Mapping[str, object] | None = None) -> None:
    """Refuses: delegates of LiteRT cannot run inside Circlet.

    Raises:
        ValueError: Always, so that scripts fall back to the CPU as they would without the library.
    """
    raise also(_no_delegates(str(library)), ValueError)


class Interpreter:
    """Runs a .tflite or .circle network through LiteRT's interface.

    Args:
        model_path: Path of the network.
        model_content: Its bytes, instead of the path.
        experimental_delegates: Must be None or empty.
        num_threads: Threads of a run; 1 by default.
        experimental_op_resolver_type: Recorded; results are exact for integers with any of them.
        experimental_preserve_all_tensors: Whether `get_tensor` can read intermediate tensors.
        experimental_disable_delegate_clustering: Accepted, and changes nothing here; as do
            `experimental_default_delegate_latest_features`,
            `experimental_compress_quantization_zero_points`,
            `experimental_disable_delegate_node_fusion` and
            `experimental_force_delegate_node_profiling`.

    Raises:
        ValueError: An argument, or the network, cannot be used.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[object] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: enum.Enum = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
    ) -> None:
        self.op_resolver_type = experimental_op_resolver_type
        self.experimental_compress_quantization_zero_points = (
            experimental_compress_quantization_zero_points
        )
        with raised_as(ValueError):
            _check_arguments(experimental_delegates, num_threads, experimental_op_resolver_type)
            source = stored(_source(model_path, model_content))
            model = load(source)
        options = RunOptions(num_threads or 1, experimental_preserve_all_tensors)
        self._graphs = [
            Subgraph(model, index, source, options) for index in range(len(model.graphs))
        ]
        self._main = self._graphs[0]
        self._signatures = {signature.key: signature for signature in model.signatures}

    def allocate_tensors(self) -> None:
        """Compile the network for the input sizes of now and make its buffers.

        Raises:
            RuntimeError: The network cannot be run, or not at these sizes.
        """
        with raised_as(RuntimeError):
            self._main.allocate()

    def get_input_details(self) -> list[Details]:
        """One dictionary per input."""
        return [self._main.details(tensor) for tensor in self._main.graph.inputs]

    def get_output_details(self) -> list[Details]:
        """One dictionary per output."""
        return [self._main.details(tensor) for tensor in self._main.graph.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[Details]:
        """One dictionary per tensor of a subgraph."""
        subgraph = self._subgraph(subgraph_index)
        return [subgraph.details(tensor) for tensor in subgraph.graph.tensors]

    def num_subgraphs(self) -> int:
        """Number of graphs of the model."""
        return len(self._graphs)

    def set_tensor(self, tensor_index: int, value: object) -> None:
        """Copy a value into a tensor.

        Raises:
            ValueError: The tensor is unknown or not allocated, or type or shape differ.
        """
        with raised_as(ValueError):
            self._main.store(self._main.tensor(tensor_index), value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of the value of an input, an output, a constant or a preserved tensor.

        Raises:
            ValueError: There is no such tensor, or no value.
        """
        subgraph = self._subgraph(subgraph_index)
        with raised_as(ValueError):
            return subgraph.buffer(subgraph.tensor(tensor_index)).copy()

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that returns a view of a tensor's memory, without a copy."""

        def view() -> np.ndarray:
            with raised_as(ValueError):
                return self._main.buffer(self._main.tensor(tensor_index))

        return view

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int] | np.ndarray, strict: bool = False
    ) -> None:
        """Give an input another size; `allocate_tensors` must follow.

        Raises:
            RuntimeError: It is no input, or `strict` and a size is not open in the file.
            ValueError: The size is not a row of numbers.
        """
        with raised_as(ValueError):
            shape = _sizes(tensor_size)
        with raised_as(RuntimeError):
            tensor = self._main.tensor(input_index)
            if strict:
                _check_open(tensor, shape)
            self._main.resize(tensor, shape)

    def invoke(self) -> None:
        """Run the network on its buffers.

        Raises:
            RuntimeError: Nothing is allocated, or the run failed.
        """
        with raised_as(RuntimeError):
            self._main.invoke()

    def reset_all_variables(self) -> None:
        """Set everything that lives on from run to run back to its start.

        Resource variables too, which LiteRT leaves as they are.
        """
        for subgraph in self._graphs:
            subgraph.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of inputs and outputs of each signature, by its key."""
        return {
            key: {side: list(tensors) for side, tensors in entry.items()}
            for key, entry in self._get_full_signature_list().items()
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable that runs a signature; the key may be left out where there is only one.

        Raises:
            ValueError: There is no such signature.
        """
        with raised_as(ValueError):
            signature = self._signature(signature_key)
        return SignatureRunner(signature, self._home(signature))

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        return {key: self._indices(self._signatures[key]) for key in sorted(self._signatures)}

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        subgraph = self._subgraph(subgraph_index)
        with raised_as(ValueError):
            return subgraph.details(subgraph.tensor(tensor_index))

    def _get_ops_details(self) -> list[Details]:
        return [self._op_details(index) for index in range(len(self._main.graph.ops))]

    def _op_details(self, index: int) -> Details:
        op, position = self._main.graph.ops[index], self._main.position
        read = [-1 if tensor is None else position(tensor) for tensor in op.inputs]
        return {
            "index": index,
            "op_name": op.custom_code or op.kind,
            "inputs": np.array(read, np.int32),
            "outputs": np.array([position(tensor) for tensor in op.outputs], np.int32),
            "operand_types": [element_type(tensor) for tensor in op.inputs if tensor is not None],
            "result_types": [element_type(tensor) for tensor in op.outputs],
        }

    def _indices(self, signature: Signature) -> dict[str, dict[str, int]]:
        position = self._home(signature).position
        sides = {"inputs": signature.inputs, "outputs": signature.outputs}
        return {
            side: {name: position(tensor) for name, tensor in sorted(tensors.items())}
            for side, tensors in sides.items()
        }

    def _home(self, signature: Signature) -> Subgraph:
        return next(entry for entry in self._graphs if entry.graph is signature.graph)

    def _signature(self, key: str | None) -> Signature:
        if key is None and len(self._signatures) == 1:
            return next(iter(self._signatures.values()))
        if key not in self._signatures:
            raise InputError(
                "there is no such signature" if key else "a signature must be named",
                where=key or "signature_key",
                why=f"the model has {sorted(self._signatures)}",
            )
        return self._signatures[key]

    def _subgraph(self, index: int) -> Subgraph:
        with raised_as(ValueError):
            check_type(index, Integral, "subgraph_index", "the index of a subgraph")
        if not 0 <= index < len(self._graphs):
            why = f"the model has {len(self._graphs)} subgraphs"
            raise also(InputError(f"there is no subgraph {index}", why=why), ValueError)
        return self._graphs[index]


def _check_arguments(
    delegates: Sequence[object] | None, num_threads: object, resolver: object
) -> None:
    if delegates:
        raise _no_delegates("experimental_delegates")
    if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
        raise InputError(
            "num_threads is not a count", where=repr(num_threads), fix="give 1 or more"
        )
    if getattr(resolver, "name", None) not in OpResolverType.__members__:
        raise InputError("the op resolver type is unknown", where=repr(resolver))


def _no_delegates(where: str) -> InputError:
    return InputError(
        "LiteRT's delegates cannot be used",
        where=where,
        why="they run inside LiteRT's interpreter",
        fix="leave them out: Circlet compiles the network for this CPU",
    )


def _source(
    path: str | os.PathLike[str] | None, content: bytes | None
) -> str | os.PathLike[str] | bytes:
    if bool(path) == bool(content):
        raise InputError(
            "a model is given twice" if path else "no model is given",
            fix="give either model_path or model_content",
        )
    if path:
        return path
    check_type(content, (bytes, bytearray, memoryview), "model_content", "the bytes of a network")
    return bytes(content or b"")


def _sizes(given: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """The sizes of a shape, as LiteRT reads them: fractions are cut off."""
    try:
        shape = np.asarray(given, np.int32)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "one size per dimension"
        raise InputError.mistyped("tensor_size", given, wanted) from error
    if shape.ndim != 1:
        raise InputError("a shape is not a row of sizes", where="tensor_size", why=repr(given))
    return tuple(shape.tolist())


def _check_open(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse to change a size that the file states."""
    same_rank = len(shape) == len(tensor.shape)
    pairs = zip(tensor.shape, shape, strict=False)
    if not same_rank or any(stated not in (None, size) for stated, size in pairs):
        raise InputError(
            "a size that the file states cannot be changed strictly",
            where=tensor.name,
            why=f"the file has {['?' if size is None else size for size in tensor.shape]}",
        )
