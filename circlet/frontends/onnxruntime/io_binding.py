"""`IOBinding`: inputs and outputs that are set once for many runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also
from circlet.frontends.onnxruntime.devices import check_is_cpu
from circlet.frontends.onnxruntime.element_types import bits_of, element_named
from circlet.frontends.onnxruntime.ort_value import OrtValue

if TYPE_CHECKING:
    from circlet.frontends.onnxruntime.session import InferenceSession


class IOBinding:
    """What `InferenceSession.run_with_iobinding` reads and writes; its session makes it.

    Attributes:
        session: The session.
        inputs: What was bound, by the names of inputs.
        outputs: Where results are written, by the names of outputs; None where the run makes room.
    """

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self.inputs: dict[str, OrtValue] = {}
        self.outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Read an input from an array; RuntimeError where there is no such input."""
        self._bind(name, OrtValue.of(np.asarray(arr_on_cpu)))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: object,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read an input from an address, which must stay valid.

        Raises:
            RuntimeError: There is no such input, type or device, or the address is 0.
        """
        check_is_cpu(device_type, device_id)
        self._bind(name, _at_address(element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Read an input from a value; RuntimeError where there is no such input."""
        self._bind(name, ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: object = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Have a run make an output, or write it to an address, which must stay valid.

        Raises:
            ValueError: An address is given without type or shape.
            RuntimeError: There is no such type or device, or the address is 0.
        """
        check_is_cpu(device_type, device_id)
        if buffer_ptr is None:
            self.outputs[name] = None
            return
        if element_type is None or shape is None:
            error = InputError("an address is given without type or shape", where=name)
            lead = "`element_type` and `shape` are to be provided"
            raise also(error, ValueError, f"{lead} if pre-allocated memory is provided")
        self.outputs[name] = _at_address(element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Write an output to a value."""
        self.outputs[name] = ortvalue

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays."""
        return [np.array(v.numpy()) if v.is_tensor() else v.held() for v in self._results]

    def clear_binding_inputs(self) -> None:
        """Forget what was bound to inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget what was bound to outputs, and results."""
        self.outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: all memory is the CPU's."""

    def synchronize_outputs(self) -> None:
        """Nothing: all memory is the CPU's."""

    def keep(self, results: Sequence[Any]) -> None:
        """Write the results of a run, in the order of `outputs`, to where they are wanted.

        Raises:
            RuntimeError: One does not fit.
        """
        kept = []
        for (name, room), result in zip(self.outputs.items(), results, strict=True):
            kept.append(OrtValue.of(result) if room is None else _written(name, room, result))
        self._results = kept

    def _bind(self, name: str, value: OrtValue) -> None:
        known = [arg.name for arg in self.session.get_inputs()]
        known += [arg.name for arg in self.session.get_overridable_initializers()]
        if name not in known:
            error = InputError("there is no such input", where=name, fix=f"it has {known}")
            sentence = f"Failed to find NodeArg with name: {name} in the def list"
            raise also(error, RuntimeError, sentence)
        self.inputs[name] = value


def _written(name: str, room: OrtValue, result: np.ndarray) -> OrtValue:
    array = room.numpy()
    if array.dtype != result.dtype or array.shape != result.shape:
        why = f"it is {array.dtype} {list(array.shape)}, not {result.dtype} {list(result.shape)}"
        error = InputError("what is bound to an output does not fit", where=name, why=why)
        sentence = f"Error in execution: Got invalid dimensions for output: {name}"
        raise also(error, RuntimeError, sentence)
    np.copyto(array, result)
    return room


def _at_address(element_type: object, shape: Sequence[int], address: int) -> OrtValue:
    """The tensor at an address."""
    element = element_named(element_type)
    dtype = bits_of(element)
    if not address or dtype is None:
        error = InputError("there is no memory of elements of this type", where=element)
        raise also(error, RuntimeError, "Pointer to data memory is not valid")
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = (ctypes.c_uint8 * count).from_address(address)
    return OrtValue(np.frombuffer(memoryview(raw), dtype).reshape(tuple(shape)), element)
