"""`Interpreter`: LiteRT's Python interface, with Circlet behind it.

A script written for `ai_edge_litert.interpreter` runs with only its import changed. Errors are
coded `CircletError`s that are also the ValueError or RuntimeError that LiteRT raises, and begin
with LiteRT's sentence. docs/replacing-litert.md lists what differs.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence

import numpy as np

from circlet.errors import CircletError, InputError, UnsupportedOpsError
from circlet.frontends.builtin_errors import also, raised_as
from circlet.frontends.held_views import HeldViews
from circlet.frontends.interpreter_arguments import (
    check_delegates,
    check_sizes,
    check_threads,
    opened_model,
    sizes,
)
from circlet.frontends.signature_runner import SignatureRunner
from circlet.frontends.subgraph import RunOptions, Subgraph, checked_index
from circlet.frontends.tensor_details import Details, element_type
from circlet.ir import Signature

_SUBGRAPH_OUT_OF_RANGE = "subgraph_index is out of range: {} for the model, which has {} subgraphs."
_INVALID_SUBGRAPH = "Invalid subgraph index {} exceeds max subgraph index {}"


@enum.unique
class OpResolverType(enum.Enum):
    """LiteRT's choice of kernels; Circlet's are the same for all of them."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


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
        _check_resolver(experimental_op_resolver_type)
        check_threads(num_threads)
        source, model = opened_model(model_path, model_content)
        check_delegates(experimental_delegates)
        options = RunOptions(num_threads or 1, experimental_preserve_all_tensors)
        self._graphs = [
            Subgraph(model, index, source, options) for index in range(len(model.graphs))
        ]
        self._main = self._graphs[0]
        self._signatures = {signature.key: signature for signature in model.signatures}
        self._views = HeldViews()

    def allocate_tensors(self) -> None:
        """Compile the network for the input sizes of now and make its buffers.

        Raises:
            RuntimeError: The network cannot be run, or not at these sizes; or a view is held.
        """
        self._views.check_none()
        try:
            self._main.allocate()
        except CircletError as error:
            raise also(error, RuntimeError, _why_unprepared(error)) from error.__cause__

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
        subgraph = self._subgraph(subgraph_index, _INVALID_SUBGRAPH)
        with raised_as(ValueError):
            return subgraph.buffer(subgraph.tensor(tensor_index)).copy()

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that returns a view of a tensor's memory, without a copy.

        While such a view, or a slice of one, is held, the network is not run, resized or allocated.
        """

        def view() -> np.ndarray:
            with raised_as(ValueError):
                return self._views.view(self._main.buffer(self._main.tensor(tensor_index)))

        return view

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int] | np.ndarray, strict: bool = False
    ) -> None:
        """Give an input another size; `allocate_tensors` must follow.

        Raises:
            RuntimeError: It is no input; `strict` and a size is not open in the file; the sizes can
                never work; or a view is held.
            TypeError, ValueError, OverflowError: The size is not a row of numbers.
        """
        self._views.check_none()
        shape, main = sizes(tensor_size), self._main
        tensor = main.tensor(input_index, RuntimeError)
        with raised_as(RuntimeError, "Attempting to resize a fixed-size tensor."):
            main.check_is_input(tensor)
        check_sizes(tensor, main.position(tensor), main.shape(tensor), shape, strict=strict)
        main.resize(tensor, shape)

    def invoke(self) -> None:
        """Run the network on its buffers.

        Raises:
            RuntimeError: Nothing is allocated, the run failed, or a view is held.
        """
        self._views.check_none()
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
        if signature_key is None and len(self._signatures) != 1:
            sentence = (
                f"SignatureDef signature_key is None and model has {len(self._signatures)} "
                "Signatures. None is only allowed when the model has 1 SignatureDef"
            )
            raise also(self._no_signature(None), ValueError, sentence)
        return SignatureRunner(self, signature_key or next(iter(self._signatures)))

    def _safe_to_run(self) -> bool:
        return not self._views.any_held()

    def _ensure_safe(self) -> None:
        self._views.check_none()

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        return {key: self._indices(self._signatures[key]) for key in sorted(self._signatures)}

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        subgraph = self._subgraph(subgraph_index, _INVALID_SUBGRAPH)
        with raised_as(ValueError):
            return subgraph.details(subgraph.tensor(tensor_index))

    def _get_ops_details(self) -> list[Details]:
        return [self._get_op_details(index) for index in range(len(self._main.graph.ops))]

    def _get_op_details(self, op_index: int) -> Details:
        index, count = checked_index(op_index, "op_index"), len(self._main.graph.ops)
        if not 0 <= index < count:
            error = InputError(f"there is no operator {index}", why=f"the graph has {count}")
            raise also(error, ValueError, "Invalid node index")
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

    def _signature(self, key: str) -> Signature:
        if key not in self._signatures:
            sentence = f'Invalid signature_key provided: "{key}".'
            raise also(self._no_signature(key), ValueError, sentence)
        return self._signatures[key]

    def _no_signature(self, key: str | None) -> InputError:
        return InputError(
            "there is no such signature" if key else "a signature must be named",
            where=key or "signature_key",
            why=f"the model has {sorted(self._signatures)}",
        )

    def _subgraph(self, index: int, sentence: str = _SUBGRAPH_OUT_OF_RANGE) -> Subgraph:
        index, count = checked_index(index, "subgraph_index"), len(self._graphs)
        if not 0 <= index < count:
            error = InputError(f"there is no subgraph {index}", why=f"the model has {count}")
            raise also(error, ValueError, sentence.format(index, count))
        return self._graphs[index]


def _check_resolver(resolver: object) -> None:
    if getattr(resolver, "name", None) not in OpResolverType.__members__:
        error = InputError("the op resolver type is unknown", where=repr(resolver))
        raise also(error, ValueError, f"Unrecognized passed in op resolver type: {resolver}")


def _why_unprepared(error: CircletError) -> str:
    """LiteRT's sentence for a custom operator that nobody registered."""
    if not isinstance(error, UnsupportedOpsError):
        return ""
    names = [e.kind.removeprefix("CUSTOM:") for e in error.entries if e.kind.startswith("CUSTOM:")]
    return f"Encountered unresolved custom op: {names[0]}." if names else ""
