"""One operation as lowerings see it, and the ops that they make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from circlet.errors import CircletError, FormatError
from circlet.formats.nnapi.codes import FuseCode, OperandCode
from circlet.ir import DType, Op, Origin, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.build import default_attrs
from circlet.ops.ranks import keeps_rank
from circlet.ops.requantization import litert_requantization
from circlet.ops.verify import RECORD_RULES, op_violations
from circlet.words import counted

if TYPE_CHECKING:
    from circlet.formats.nnapi.lower import Lowerer

_ACTIVATIONS = {
    FuseCode.NONE: "NONE",
    FuseCode.RELU: "RELU",
    FuseCode.RELU1: "RELU_N1_TO_1",
    FuseCode.RELU6: "RELU6",
}
_BEFORE_TYPES = RECORD_RULES[:-1]
_CUSTOM = "CUSTOM:"


class NotLoweredError(Exception):
    """No record says exactly what an operation means; `args[0]` says why."""


class Call:
    """An operation with its operands and the ops that were made of it so far.

    Attributes:
        kind: Its name without the prefix ANEURALNETWORKS_.
        inputs, outputs: Indices of its operands.
        ops: What was made of it.
    """

    def __init__(self, lowerer: Lowerer, index: int) -> None:
        operation = lowerer.description.operations[index]
        self.lowerer = lowerer
        self.kind, self.inputs, self.outputs = operation.kind, operation.inputs, operation.outputs
        self.name = f"{self.kind}_{index}"
        self.origin = Origin.of(index, self.name)
        self.ops: list[Op] = []

    def __len__(self) -> int:
        """How many inputs are given, omitted ones included."""
        return len(self.inputs)

    def __getitem__(self, index: int) -> Tensor:
        tensor = self.optional(index)
        if tensor is None:
            raise self.wrong(f"{self.kind} lacks its input {index}")
        return tensor

    def optional(self, index: int) -> Tensor | None:
        """Input `index`, None where it is omitted."""
        return self.lowerer.tensors[self.inputs[index]] if self._has(index) else None

    def code(self, index: int) -> OperandCode:
        """The type of an input that is given or omitted."""
        if not self._has(index):
            raise self.wrong(f"{self.kind} lacks its input {index}")
        return self.lowerer.description.operands[self.inputs[index]].code

    def _has(self, index: int) -> bool:
        """Whether an input is there; negative numbers count from the last."""
        return -len(self.inputs) <= index < len(self.inputs)

    def known(self, index: int) -> np.ndarray:
        """The elements of an input that must be a constant.

        Raises:
            NotLoweredError: It is computed in a run.
        """
        tensor = self[index]
        if tensor.data is None:
            raise NotLoweredError(f"its input {index} ({tensor.name}) is no constant")
        return tensor.data

    def whole(self, index: int) -> int:
        """A constant scalar of type INT32 or UINT32."""
        return int(self._scalar(index, "iu"))

    def real(self, index: int) -> float:
        """A constant scalar of type FLOAT32 or FLOAT16."""
        return float(self._scalar(index, "f"))

    def flag(self, index: int, default: bool = False) -> bool:
        """A constant scalar of type BOOL, or an integer; `default` where it is not given."""
        return bool(self._scalar(index, "biu")) if self.optional(index) else default

    def _scalar(self, index: int, kinds: str) -> Any:
        """The one element of a constant of some kinds of numpy's types."""
        values = self.known(index)
        if values.size != 1 or values.dtype.kind not in kinds:
            why = f"it has {counted(values.size, 'element')} of type {values.dtype}"
            raise self.wrong(f"input {index} is another scalar", why)
        return values.reshape(())[()]

    def wholes(self, index: int) -> tuple[int, ...]:
        """A constant list of integers."""
        if self.known(index).dtype.kind not in "iu":
            raise self.wrong(f"input {index} is no list of integers")
        return tuple(int(value) for value in self.known(index).reshape(-1))

    def activation(self, index: int) -> str:
        """The activation that a constant FuseCode names."""
        code = self.whole(index)
        if code not in list(FuseCode):
            raise self.wrong("an activation is unknown", f"FuseCode {code}")
        return _ACTIVATIONS[FuseCode(code)]

    def wrong(self, what: str, why: str = "") -> FormatError:
        """An error about the operation."""
        return FormatError(what, where=f"{self.name} ({self.kind})", why=why)

    def const(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Tensor:
        """A constant of this operation; FormatError where the type cannot hold the values."""
        try:
            return constant(f"{self.name}_constant", np.asarray(values, dtype))
        except OverflowError as error:
            raise self.wrong("a number is out of range", str(error)) from None

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        dtype: DType | None = None,
        quant: Quantization | None = None,
        **changes: Any,
    ) -> Tensor:
        """Make an op with one result, an intermediate one, and give that.

        `changes` are fields of the attributes that differ from `attrs`, or from the defaults.

        Raises:
            NotLoweredError: No record takes such operands.
        """
        first = next(tensor for tensor in inputs if tensor is not None)
        label = f"{self.name}_{len(self.ops)}"
        result = Tensor(label, dtype or first.dtype, (), quant, has_rank=False)
        self.many(kind, inputs, [result], attrs, **changes)
        return result

    def result(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        output: int = 0,
        **changes: Any,
    ) -> None:
        """Make an op that writes an output of the operation; as `op`."""
        self.many(kind, inputs, [self.output(output)], attrs, **changes)

    def output(self, index: int = 0) -> Tensor:
        """The tensor of an output, of the type that its operand declares."""
        outputs = self.outputs[index : index + 1]
        tensor = self.lowerer.tensors[outputs[0]] if outputs else None
        if tensor is None:
            raise self.wrong(f"{self.kind} lacks its output {index}")
        return tensor

    def many(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        attrs: object = None,
        **changes: Any,
    ) -> None:
        """Make an op that writes given tensors; as `op`."""
        given = default_attrs(kind) if attrs is None else attrs
        if changes:
            given = replace(given, **changes)  # type: ignore[type-var]
        code = kind.removeprefix(_CUSTOM) if kind.startswith(_CUSTOM) else ""
        op = Op("CUSTOM" if code else kind, list(inputs), list(outputs), given, self.origin)
        op.custom_code = code
        op.requantization = litert_requantization(op)
        self._infer(op)
        self.ops.append(op)

    def _infer(self, op: Op) -> None:
        for violation in op_violations(op, self.lowerer.graph, _BEFORE_TYPES):
            raise NotLoweredError(violation.message)
        if not keeps_rank(op):
            return
        try:
            types = get(op).infer(op)
        except CircletError as error:
            raise NotLoweredError(f"{error.what} {error.why}") from None
        for tensor, inferred in zip(op.outputs, types, strict=True):
            if tensor.dtype is not inferred.dtype:
                raise NotLoweredError(f"{op.label} computes {inferred.dtype.name}")
            declared = tensor.shape if tensor.has_rank else None
            if declared is not None and not _agree(declared, inferred.shape):
                if tensor in self.lowerer.declared_outputs:
                    why = f"{list(declared)} is declared, and {list(inferred.shape)} is computed"
                    raise self.wrong(f"the sizes of {tensor.name} do not fit", why)
                declared = None  # what is declared of intermediate results is a hint
            if inferred.has_rank and (declared is None or None in declared):
                tensor.shape, tensor.has_rank = inferred.shape, True


def _agree(declared: Sequence[int | None], inferred: Sequence[int | None]) -> bool:
    pairs = zip(declared, inferred, strict=False)
    same = all(a is None or b is None or a == b for a, b in pairs)
    return same and len(declared) == len(inferred)
