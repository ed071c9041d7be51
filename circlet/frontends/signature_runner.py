"""Running one signature of a model by the names of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from circlet.artifact.values import as_array
from circlet.errors import CircletError, InputError
from circlet.frontends.builtin_errors import also, raised_as
from circlet.frontends.interpreter_arguments import check_sizes
from circlet.frontends.tensor_details import Details
from circlet.ir import Tensor

if TYPE_CHECKING:
    from circlet.frontends.interpreter import Interpreter


class SignatureRunner:
    """A callable with the signature's inputs as keyword arguments; returns outputs by name.

    Args:
        interpreter: The interpreter, whose buffers are used.
        signature_key: Which signature; `Interpreter.get_signature_runner` finds the only one.

    Raises:
        ValueError: One of them is missing, or there is no such signature.
    """

    def __init__(
        self, interpreter: Interpreter | None = None, signature_key: str | None = None
    ) -> None:
        if interpreter is None:
            raise also(
                InputError("no interpreter is given"), ValueError, "None interpreter provided."
            )
        if not signature_key:
            error = InputError("no signature is given")
            raise also(error, ValueError, "None signature_key provided.")
        signature = interpreter._signature(signature_key)
        self._subgraph = interpreter._home(signature)
        self._inputs = dict(sorted(signature.inputs.items()))
        self._outputs = dict(sorted(signature.outputs.items()))

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Size the inputs by the arrays given, run, and return copies of the outputs.

        Raises:
            ValueError: The names are not those of the signature, or an array does not fit.
            RuntimeError: The network does not work for these sizes.
        """
        with raised_as(ValueError):
            self._check_names(inputs)
            arrays = {
                self._inputs[name]: as_array(value, "input", name) for name, value in inputs.items()
            }
            arrays = {t: array for t, array in arrays.items() if not _is_same_constant(t, array)}
        graph = self._subgraph
        with raised_as(RuntimeError):
            self._size(arrays)
        with raised_as(ValueError):
            for tensor, array in arrays.items():
                graph.store(tensor, array)
        with raised_as(RuntimeError):
            graph.invoke()
        return {name: graph.buffer(tensor).copy() for name, tensor in self._outputs.items()}

    def get_input_details(self) -> dict[str, Details]:
        """Details of the input tensors by the signature's names."""
        return {name: self._subgraph.details(tensor) for name, tensor in self._inputs.items()}

    def get_output_details(self) -> dict[str, Details]:
        """Details of the output tensors by the signature's names."""
        return {name: self._subgraph.details(tensor) for name, tensor in self._outputs.items()}

    def _size(self, arrays: Mapping[Tensor, np.ndarray]) -> None:
        """Make the network ready for these arrays, or leave its sizes as they were."""
        graph = self._subgraph
        before = {tensor: graph.shape(tensor) for tensor in arrays}
        try:
            for tensor, array in arrays.items():
                now, index = before[tensor], graph.position(tensor)
                check_sizes(tensor, index, now, array.shape, strict=False)
                graph.resize(tensor, array.shape)
            graph.allocate()
        except CircletError:
            for tensor, shape in before.items():
                graph.resize(tensor, shape)
            raise

    def _check_names(self, inputs: dict[str, np.ndarray]) -> None:
        if set(inputs) == set(self._inputs):
            return
        error = InputError(
            "the inputs are not those of the signature",
            why=f"got {sorted(inputs)}, expected {list(self._inputs)}",
        )
        unknown = next((name for name in inputs if name not in self._inputs), "")
        sentence = f"Invalid Input name ({unknown}) for SignatureDef"
        if len(inputs) != len(self._inputs):
            counts = f"expected {len(self._inputs)} vs provided {len(inputs)}"
            sentence = f"Invalid number of inputs provided for running a SignatureDef, {counts}"
        raise also(error, ValueError, sentence)


def _is_same_constant(tensor: Tensor, array: np.ndarray) -> bool:
    """Whether an input is a constant, and what is given is its value; another one is refused."""
    if tensor.data is None:
        return False
    if not np.array_equal(array, tensor.data):
        raise InputError("a constant cannot be set", where=tensor.name)
    return True
