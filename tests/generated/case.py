"""One generated case: an operator of a kind, its operands, and the graph that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Graph, Model, Op, Origin, Quantization, Tensor
from circlet.ops import OpDef, get
from circlet.ops.requantization import litert_requantization
from circlet.ops.verify import op_violations
from tests.generated.draw import Operand

# The first version that LiteRT has of a kind, where that is not 1.
VERSIONS = {"BROADCAST_TO": 2}
# Inference repeats what is stated of an output where an operand's data decides its rank.
_UNKNOWN = (None,) * 31


@dataclass(frozen=True)
class Form:
    """A combination of types that a record accepts; None stands for an omitted input.

    Attributes:
        any: The type that stands for "*".
    """

    text: str
    inputs: tuple[DType | None, ...]
    output: DType
    any: DType

    @staticmethod
    def of(text: str, any_type: DType) -> Form:
        """A form in the notation of records."""
        words, _, result = text.partition("->")
        types = tuple(_typed(word, any_type) for word in words.split())
        return Form(text, types, _typed(result.strip(), any_type) or any_type, any_type)

    def input(self, index: int) -> DType:
        """The type of an input that the form names."""
        found = self.inputs[index]
        assert found is not None
        return found


def _typed(word: str, any_type: DType) -> DType | None:
    if word == "_":
        return None
    return any_type if word == "*" else DType(word)


@dataclass(frozen=True)
class Parts:
    """What a recipe makes.

    Attributes:
        results: Type and quantisation of each output; empty for what the record says.
        custom_options: The attributes of a custom operator as a file holds them.
    """

    operands: Sequence[Operand | None]
    attrs: object = None
    results: Sequence[tuple[DType, Quantization | None]] = ()
    custom_options: bytes = b""


@dataclass
class Case:
    """An operator with its operands and, once it was judged, what was found.

    Attributes:
        refusal: Why the operator may not be run at all, "" where it may.
    """

    name: str
    record: OpDef
    form: Form
    parts: Parts
    graph: Graph = field(init=False)
    inputs: list[np.ndarray] = field(init=False)
    refusal: str = field(init=False)

    def __post_init__(self) -> None:
        fed_operands = [o for o in self.parts.operands if o is not None and not o.constant]
        self.inputs = [np.asarray(operand.array) for operand in fed_operands]
        operands = [
            None if o is None else self._tensor(i, o) for i, o in enumerate(self.parts.operands)
        ]
        given = [t for t in operands if t is not None]
        op = self._op(operands)
        fed = [tensor for tensor in given if not tensor.is_constant]
        self.graph = Graph(self.name, fed, list(op.outputs), [op], [*given, *op.outputs])
        self.refusal = self._settle(op)

    @property
    def op(self) -> Op:
        """The operator."""
        return self.graph.ops[0]

    @property
    def kind(self) -> str:
        """The operator's kind."""
        return self.record.kind

    def model(self) -> Model:
        """A network of the operator alone."""
        return Model([self.graph])

    def __str__(self) -> str:
        shapes = ", ".join(
            "_" if o is None else f"{o.dtype.name}{list(o.array.shape)}{'c' * o.constant}"
            for o in self.parts.operands
        )
        return f"{self.name}({shapes}) -> {self.op.outputs[0].dtype.name} {self.op.attrs}"

    def _tensor(self, index: int, operand: Operand) -> Tensor:
        data = np.asarray(operand.array).view() if operand.constant else None
        if data is not None:
            data.flags.writeable = False
        name = f"{self.name}/in{index}"
        return Tensor(name, operand.dtype, operand.array.shape, operand.quant, data=data)

    def _op(self, operands: list[Tensor | None]) -> Op:
        count = len(self.parts.results) or self.record.outputs or 1
        results = self.parts.results or [(self.form.output, None)] * count
        outputs = [
            Tensor(f"{self.name}/out{i}", dtype, _UNKNOWN, quant, has_rank=False)
            for i, (dtype, quant) in enumerate(results)
        ]
        kind, _, code = self.record.kind.partition(":")
        attrs = self.record.attrs() if self.parts.attrs is None else self.parts.attrs
        version = VERSIONS.get(kind, 1)
        op = Op(kind, operands, outputs, attrs, Origin.of(0, self.name), version, code)
        op.requantization = litert_requantization(op)
        if self.parts.custom_options:
            op.extra["custom_options"] = self.parts.custom_options
        return op

    def _settle(self, op: Op) -> str:
        """Give the outputs their inferred types; why the operator breaks a rule, or ""."""
        try:
            broken = [v for v in op_violations(op, self.graph) if v.rule != "inferred-types"]
            if broken:
                return broken[0].message
            for tensor, found in zip(op.outputs, get(op).infer(op), strict=True):
                stated = getattr(found, "has_rank", True)
                tensor.has_rank = stated and found.shape != _UNKNOWN
                tensor.shape = found.shape if tensor.has_rank else ()
                tensor.dtype = found.dtype
        except CircletError as error:
            return str(error)
        return next((v.message for v in op_violations(op, self.graph)), "")
