"""The model: operands, and operations over their indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from circlet.errors import CircletError, UnsupportedOpsError
from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Description, Lifetime, Operand, Operation
from circlet.formats.nnapi.lower import lower
from circlet.formats.nnapi.operation_codes import OPERATION_CODES, OPERATION_NAMES
from circlet.frontends.nnapi.codes import COPIED_BYTES, ResultCode
from circlet.frontends.nnapi.device import Device
from circlet.frontends.nnapi.memory import Bytes, Memory, bytes_of
from circlet.frontends.nnapi.object import NNAPIObject, present, refused, result_error
from circlet.frontends.nnapi.operand_type import OperandType, is_known
from circlet.frontends.nnapi.states import MODEL, Phase
from circlet.frontends.nnapi.support import reasons_against
from circlet.ir import Model as Network
from circlet.words import counted

_PREFIX = "ANeuralNetworksModel_"


class Model(NNAPIObject):
    """A network that is put together call by call, and then finished.

    Every method raises `NNAPIError`: BAD_STATE once the model is finished or was found invalid,
    DEAD_OBJECT once it is freed, BAD_DATA for arguments that do not fit.
    """

    table = MODEL

    def __init__(self) -> None:
        super().__init__(Phase.BUILDING)
        self._made = Description()
        self._lifetimes: list[Lifetime] = []
        self._lowered: Network | CircletError | None = None

    def add_operand(self, type: OperandType) -> int:
        """Add an operand, and give its index."""
        call = _PREFIX + "addOperand"
        with self._lock:
            self._enter(call)
            present(type, OperandType, call)
            code = type.checked(call)
            dims = tuple(type.dims)
            self._made.operands.append(Operand(code, dims, type.scale, type.zero_point))
            self._lifetimes.append(Lifetime.TEMPORARY)
            return len(self._lifetimes) - 1

    def set_operand_value(self, index: int, value: object) -> None:
        """Make an operand a constant, or an omitted one by None.

        Up to 128 bytes are copied. Longer values are used where they lie, and must stay as they are
        until everything that was made of the model is freed.
        """
        call = _PREFIX + "setOperandValue"
        with self._lock:
            self._enter(call)
            operand = self._operand(index, call)
            if value is None:
                operand.is_omitted = True
            else:
                held = bytes_of(value, call)
                copied = held.copy() if held.nbytes <= COPIED_BYTES else held
                operand.value = _elements(operand, copied, call)
                operand.is_omitted = False
            self._lifetimes[index] = Lifetime.CONSTANT

    def set_operand_value_from_memory(
        self, index: int, memory: Memory, offset: int, length: int
    ) -> None:
        """Make an operand a constant that lies in a memory."""
        call = _PREFIX + "setOperandValueFromMemory"
        with self._lock:
            self._enter(call)
            present(memory, Memory, call)
            operand = self._operand(index, call)
            operand.value = _elements(operand, memory.region(offset, length, call), call)
            operand.is_omitted = False
            self._lifetimes[index] = Lifetime.CONSTANT

    def set_operand_symm_per_channel_quant_params(
        self, index: int, channel_dim: int, scales: Sequence[float]
    ) -> None:
        """Give an operand of type TENSOR_QUANT8_SYMM_PER_CHANNEL its scales."""
        call = _PREFIX + "setOperandSymmPerChannelQuantParams"
        with self._lock:
            self._enter(call)
            operand = self._operand(index, call)
            dims, found = operand.dims, tuple(map(float, scales))
            if operand.code is not OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
                raise refused("the operand has no channels", where=call, why=operand.code.name)
            if not 0 <= channel_dim < len(dims) or len(found) != dims[channel_dim]:
                why = (
                    f"{counted(len(found), 'scale')} along dimension {channel_dim} of {list(dims)}"
                )
                raise refused("the scales do not fit the operand", where=call, why=why)
            if not all(0 < scale < np.inf for scale in found):
                raise refused("a scale is not positive", where=call)
            operand.channel_dim, operand.channel_scales = channel_dim, found

    def add_operation(self, kind: int | str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation, by its number or by its name without ANEURALNETWORKS_."""
        call = _PREFIX + "addOperation"
        with self._lock:
            self._enter(call)
            name = kind if isinstance(kind, str) else OPERATION_NAMES.get(kind, "")
            if name not in OPERATION_CODES:
                raise refused("an operation is unknown", where=call, why=repr(kind))
            if not outputs:
                raise refused("an operation has no outputs", where=call, why=name)
            read, written = self._indices(inputs, call), self._indices(outputs, call)
            fixed = [i for i in written if self._lifetimes[i] is Lifetime.CONSTANT]
            if fixed:
                why = f"operand {fixed[0]} is a constant"
                raise refused("an operation writes what cannot be written", where=call, why=why)
            self._made.operations.append(Operation(name, read, written))

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say what callers give and get."""
        call = _PREFIX + "identifyInputsAndOutputs"
        with self._lock:
            self._enter(call)
            read, written = self._indices(inputs, call), self._indices(outputs, call)
            both = (*read, *written)
            if not written:
                raise refused("a model has no outputs", where=call)
            taken = [i for i in both if self._lifetimes[i] is not Lifetime.TEMPORARY]
            if taken or len(set(both)) < len(both):
                why = "it is a constant, or an input or output already, or named twice"
                raise refused("an operand cannot be an input or output", where=call, why=why)
            self._lifetimes = [
                Lifetime.INPUT if i in read else Lifetime.OUTPUT if i in written else known
                for i, known in enumerate(self._lifetimes)
            ]
            self._made.inputs, self._made.outputs = read, written

    def relax_computation_float32_to_float16(self, allow: bool) -> None:
        """Whether float32 may be computed as float16; it may, but is not."""
        with self._lock:
            self._enter(_PREFIX + "relaxComputationFloat32toFloat16")
            self._made.is_relaxed = bool(allow)

    def finish(self) -> None:
        """End the building of the model.

        Raises:
            NNAPIError: BAD_DATA where operands or operations contradict each other; the model is
                then of no use any more.
        """
        call = _PREFIX + "finish"
        with self._lock:
            self._enter(call)
            self._phase = Phase.INVALID
            self._check_whole(call)
            try:
                self._lowered = lower(self._made)
            except UnsupportedOpsError as error:  # devices say so, and compilations
                self._lowered = error
            except CircletError as error:
                if self._is_sized():  # else executions may leave out what does not fit
                    raise result_error(error, call) from error
                self._lowered = error
            self._phase = Phase.FINISHED

    def description(self, call: str) -> Description:
        """The finished model, for a call that needs one."""
        self._enter(call)
        return self._made

    def lowered(self) -> Network:
        """The network that the finished model means.

        Raises:
            CircletError: Some operations cannot be lowered, or not before sizes are known.
        """
        if isinstance(self._lowered, CircletError):
            raise self._lowered
        assert self._lowered is not None
        return self._lowered

    def get_supported_operations_for_devices(self, devices: Sequence[Device]) -> list[bool]:
        """Whether any of some devices runs each operation, in the order of `add_operation`."""
        return [not reason for reason in self.reasons_against_operations(devices)]

    def reasons_against_operations(self, devices: Sequence[Device]) -> list[str]:
        """Why none of some devices runs each operation; "" where one does."""
        call = _PREFIX + "getSupportedOperationsForDevices"
        description = self.description(call)
        checked_devices(devices, call)
        try:
            return reasons_against(description, [device.name for device in devices])
        except CircletError as error:
            raise result_error(error, call) from error

    def free(self) -> None:
        """Let go of the model; what was made of it stays usable."""
        super().free()
        self._made, self._lowered = Description(), None

    def _operand(self, index: int, call: str) -> Operand:
        (place,) = self._indices((index,), call)
        if self._lifetimes[place] in (Lifetime.INPUT, Lifetime.OUTPUT):
            raise refused("an input or output has no value", where=call, why=f"operand {index}")
        return self._made.operands[place]

    def _indices(self, indices: Sequence[int], call: str) -> tuple[int, ...]:
        count = len(self._lifetimes)
        try:
            found = tuple(map(operator.index, indices))
        except TypeError as error:
            raise refused("an index is no integer", where=call, why=str(error)) from None
        wrong = [index for index in found if not 0 <= index < count]
        if wrong:
            why = f"{wrong[0]}, there are {count}"
            raise refused("there is no such operand", where=call, why=why)
        return found

    def _is_sized(self) -> bool:
        """Whether the sizes of all inputs are stated."""
        given = [self._made.operands[index] for index in self._made.inputs]
        return all(is_known(o.dims) and (o.dims or o.code.is_scalar) for o in given)

    def _check_whole(self, call: str) -> None:
        made = self._made
        if not made.outputs:
            raise refused("no outputs are identified", where=call)
        known = {i for each in made.operations for i in each.outputs}
        for index, (operand, lifetime) in enumerate(
            zip(made.operands, self._lifetimes, strict=True)
        ):
            symmetric = operand.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
            if symmetric and not operand.channel_scales and not operand.is_omitted:
                raise refused("scales of channels are missing", where=f"operand {index}")
            if index in known and lifetime not in (Lifetime.TEMPORARY, Lifetime.OUTPUT):
                raise refused("an operation writes an input or constant", where=f"operand {index}")
            if lifetime in (Lifetime.INPUT, Lifetime.CONSTANT):
                known.add(index)
        read = {i for each in made.operations for i in each.inputs}
        for index in sorted({*read, *made.outputs} - known):
            raise refused("nothing computes an operand", where=f"operand {index}")


def checked_devices(devices: Sequence[Device], call: str) -> None:
    """See that some devices are given, each once.

    Raises:
        NNAPIError: BAD_DATA, or UNEXPECTED_NULL for None.
    """
    if any(device is None for device in devices):
        raise refused("a device is none", ResultCode.UNEXPECTED_NULL, where=call)
    if not devices or len(set(devices)) < len(devices):
        raise refused("no device is given, or one twice", where=call)


def _elements(operand: Operand, held: Bytes, call: str) -> np.ndarray:
    """The elements of a constant over its bytes."""
    if not is_known(operand.dims):
        raise refused("a constant has unknown sizes", where=call, why=str(list(operand.dims)))
    dtype = operand.code.dtype.numpy
    needed = int(np.prod(operand.dims, dtype=np.int64)) * dtype.itemsize
    if held.nbytes != needed:
        why = f"{held.nbytes} bytes, {needed} are needed"
        raise refused("a value has the wrong size", where=call, why=why)
    if dtype == np.bool_:
        return (held != 0).reshape(operand.dims)
    array: np.ndarray = np.ndarray(operand.dims, dtype, held)
    return np.require(array, requirements="A")
