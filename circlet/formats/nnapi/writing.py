"""An operator as writers see it, and the operations over operands that they make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from circlet.formats.by_kind import ByKind
from circlet.formats.nnapi.codes import FuseCode, OperandCode
from circlet.formats.nnapi.description import Description, Operand, Operation
from circlet.ir import DType, Op, Quantization, Tensor

_CODES = {
    DType.FLOAT32: OperandCode.TENSOR_FLOAT32,
    DType.FLOAT16: OperandCode.TENSOR_FLOAT16,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.BOOL: OperandCode.TENSOR_BOOL8,
}
_QUANTISED = {
    DType.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    DType.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    DType.UINT16: OperandCode.TENSOR_QUANT16_ASYMM,
    DType.INT16: OperandCode.TENSOR_QUANT16_SYMM,
}
_ACTIVATIONS = {
    "NONE": FuseCode.NONE,
    "RELU": FuseCode.RELU,
    "RELU_N1_TO_1": FuseCode.RELU1,
    "RELU6": FuseCode.RELU6,
}
_INT32 = np.iinfo(np.int32)
Attrs = TypeVar("Attrs")


class NotWrittenError(Exception):
    """No operation says exactly what an operator does; `args[0]` says why."""


class Operands:
    """Makes the operands of one description.

    Attributes:
        description: What is made.
    """

    def __init__(self) -> None:
        self.description = Description()
        self._indices: dict[Tensor, int] = {}

    def add(self, operand: Operand) -> int:
        """The index of a new operand."""
        self.description.operands.append(operand)
        return len(self.description.operands) - 1

    def index(self, tensor: Tensor) -> int:
        """The index of a tensor's operand.

        Raises:
            NotWrittenError: It is of a type that no operand has.
        """
        if tensor not in self._indices:
            self._indices[tensor] = self.add(operand_of(tensor))
        return self._indices[tensor]

    def stand_for(self, tensor: Tensor, known: Tensor) -> None:
        """Have a tensor's operand be that of another one."""
        self._indices[tensor] = self.index(known)


class Written:
    """One operator, and the operations that are made of it.

    Attributes:
        op: The operator.
    """

    def __init__(self, op: Op, operands: Operands) -> None:
        self.op = op
        self._operands = operands

    def __getitem__(self, index: int) -> Tensor:
        tensor = self.op.input(index)
        if tensor is None:
            raise NotWrittenError(f"its input {index} is omitted")
        return tensor

    def attrs(self, kind: type[Attrs]) -> Attrs:
        """The operator's attributes."""
        return self.op.attributes(kind)

    def operation(
        self, kind: str, inputs: Sequence[Tensor | int], outputs: Sequence[Tensor] | None = None
    ) -> None:
        """Make an operation of tensors, and of operands that are made already."""
        made = self.op.outputs if outputs is None else outputs
        read = tuple(each if isinstance(each, int) else self.operand(each) for each in inputs)
        written = tuple(self.operand(each) for each in made)
        self._operands.description.operations.append(Operation(kind, read, written))

    def operand(self, tensor: Tensor) -> int:
        """The operand of a tensor."""
        return self._operands.index(tensor)

    def whole(self, value: int) -> int:
        """An INT32 scalar."""
        return self._scalar(OperandCode.INT32, value)

    def real(self, value: float) -> int:
        """A FLOAT32 scalar."""
        return self._scalar(OperandCode.FLOAT32, value)

    def flag(self, value: bool) -> int:
        """A BOOL scalar."""
        return self._scalar(OperandCode.BOOL, value)

    def wholes(self, values: Sequence[int]) -> int:
        """A list of INT32."""
        data = np.array(values, np.int32)
        return self._operands.add(Operand(OperandCode.TENSOR_INT32, data.shape, value=data))

    def activation(self, name: str) -> int:
        """The scalar that stands for an activation."""
        if name not in _ACTIVATIONS:
            raise NotWrittenError(f"no operation applies {name}")
        return self.whole(_ACTIVATIONS[name])

    def is_constant(self, tensor: Tensor, data: np.ndarray) -> None:
        """Have a tensor that the operator computes be a constant."""
        name = tensor.name
        known = Tensor(name, DType.of(data), data.shape, tensor.quant, data=data)
        self._operands.stand_for(tensor, known)

    def constant(self, tensor: Tensor) -> np.ndarray:
        """The elements of a tensor that must be a constant."""
        if tensor.data is None:
            raise NotWrittenError(f"{tensor.name} is computed, and must be a constant")
        return tensor.data

    def number(self, tensor: Tensor) -> int:
        """The scalar that a constant of one integer is."""
        data = self.constant(tensor)
        if data.size != 1:
            raise NotWrittenError(f"{tensor.name} is no single number")
        return self.whole(int(data.reshape(-1)[0]))

    def zeros(self, count: int, dtype: DType, quant: Quantization | None) -> Tensor:
        """A constant of zeros."""
        name = f"{self.op.name} zeros"
        return Tensor(name, dtype, (count,), quant, data=np.zeros(count, dtype.numpy))

    def _scalar(self, code: OperandCode, value: float) -> int:
        return self._operands.add(Operand(code, value=np.array(value, code.dtype.numpy)))


Writer = Callable[[Written], None]
WRITERS: ByKind[Writer] = ByKind("writer")
writes = WRITERS.row


def operand_of(tensor: Tensor) -> Operand:
    """The operand that a tensor is; a constant without dimensions is a list of one.

    Raises:
        NotWrittenError: It is of a type, or has sizes, that no operand has.
    """
    data = _elements(tensor)
    shape = tensor.shape if data is None else data.shape
    if not tensor.has_rank or not shape:
        raise NotWrittenError(f"{tensor.name} has no dimensions, which stand for an unknown rank")
    if 0 in shape:
        raise NotWrittenError(f"{tensor.name} has a size of 0, which stands for an unknown one")
    dims = tuple(0 if size is None else size for size in shape)
    operand = Operand(OperandCode.TENSOR_FLOAT32, dims, value=data, name=tensor.name)
    dtype = tensor.dtype if data is None else DType.of(data)
    if dtype in _QUANTISED:
        _quantise(operand, tensor, dtype)
    elif dtype in _CODES:
        operand.code = _CODES[dtype]
        if dtype is DType.INT32 and tensor.quant is not None and len(tensor.quant.scale) == 1:
            operand.scale = float(tensor.quant.scale[0])
    else:
        raise NotWrittenError(f"{tensor.name} is of type {dtype.name}")
    return operand


def _elements(tensor: Tensor) -> np.ndarray | None:
    """The elements of a constant; whole numbers of 64 bits as those of 32 where they fit."""
    if tensor.data is None:
        return None
    if not tensor.dtype.has_numpy or tensor.dtype.is_small or tensor.sparsity is not None:
        raise NotWrittenError(f"{tensor.name} is stored in a packed form")
    data = tensor.data.reshape(tensor.data.shape or (1,))
    if tensor.dtype is not DType.INT64:
        return data
    if data.size and not (_INT32.min <= data.min() and data.max() <= _INT32.max):
        raise NotWrittenError(f"{tensor.name} has numbers of more than 32 bits")
    return data.astype(np.int32)


def _quantise(operand: Operand, tensor: Tensor, dtype: DType) -> None:
    quant = tensor.quant
    if quant is None or not len(quant.scale):
        raise NotWrittenError(f"{tensor.name} of type {dtype.name} has no scale")
    if len(quant.scale) > 1:
        if dtype is not DType.INT8 or quant.zero_point.any():
            raise NotWrittenError(f"{tensor.name} of type {dtype.name} has scales of channels")
        operand.code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        operand.channel_dim = quant.axis
        operand.channel_scales = tuple(map(float, quant.scale))
        return
    operand.code = _QUANTISED[dtype]
    operand.scale, operand.zero_point = float(quant.scale[0]), int(quant.zero_point[0])
    if dtype is DType.INT16 and operand.zero_point:
        raise NotWrittenError(f"{tensor.name} of type INT16 has a zero point")
