"""A description to `circlet.ir.Model`."""

from __future__ import annotations

from circlet.errors import FormatError, GraphError, UnsupportedOp, UnsupportedOpsError
from circlet.formats.nnapi import operations  # noqa: F401  fills the table
from circlet.formats.nnapi.call import Call, NotLoweredError
from circlet.formats.nnapi.description import Description, Operand
from circlet.formats.nnapi.table import LOWERINGS
from circlet.ir import DType, Graph, Model, Op, Origin, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.quantize import CastAttrs


def lower(description: Description) -> Model:
    """The model that a description says.

    Operands of the types FLOAT16 and TENSOR_FLOAT16 are computed in FLOAT32: what callers give
    is widened, and what they get is narrowed.

    Raises:
        FormatError, GraphError: The description contradicts itself.
        UnsupportedOpsError: Some operations cannot be lowered; all are named.
    """
    return Lowerer(description).run()


class Lowerer:
    """Makes the graph of one description.

    Attributes:
        description: What is lowered.
        graph: The graph as far as it is made.
        tensors: For each operand the tensor that lowerings read and write; None where omitted.
        declared_outputs: Those whose sizes callers rely on.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.graph = Graph("main")
        self.tensors: list[Tensor | None] = []
        self.declared_outputs: set[Tensor] = set()
        self._refused: list[UnsupportedOp] = []
        self._constants: set[int] = set()

    def run(self) -> Model:
        """The whole model."""
        inputs = set(self.description.inputs)
        for index, operand in enumerate(self.description.operands):
            made = None if operand.is_omitted else tensor_of(operand, index, index in inputs)
            self.tensors.append(made)
        self.declared_outputs = {self._given(index) for index in self.description.outputs}
        self._widen_inputs()
        for index in _ordered(self.description):
            self._lower(index)
        if self._refused:
            raise UnsupportedOpsError(self._refused)
        self._narrow_outputs()
        return Model([self.graph], source_format="nnapi")

    def _lower(self, index: int) -> None:
        call = Call(self, index)
        lowering = LOWERINGS.find(call.kind)
        try:
            if lowering is None:
                raise NotLoweredError("the operation has no lowering")
            lowering(call)
        except NotLoweredError as error:
            dtypes = ", ".join(t.dtype.name for t in map(call.optional, range(len(call))) if t)
            entry = UnsupportedOp(call.name, f"NNAPI:{call.kind}", 1, dtypes, str(error))
            self._refused.append(entry)
        for op in call.ops:
            self._append(op)

    def _append(self, op: Op) -> None:
        self.graph.ops.append(op)
        self.graph.tensors.extend(op.outputs)
        for tensor in op.inputs:
            if tensor is not None and tensor.is_constant and id(tensor) not in self._constants:
                self._constants.add(id(tensor))
                self.graph.tensors.append(tensor)

    def _widen_inputs(self) -> None:
        for index in self.description.inputs:
            tensor = self._given(index)
            if tensor.dtype is DType.FLOAT16:
                self.tensors[index] = self._cast(tensor, DType.FLOAT32, index)
            self.graph.inputs.append(tensor)
            self.graph.tensors.append(tensor)

    def _narrow_outputs(self) -> None:
        for index in self.description.outputs:
            tensor = self._given(index)
            if self.description.operands[index].code.dtype is DType.FLOAT16:
                tensor = self._cast(tensor, DType.FLOAT16, index)
            self.graph.outputs.append(tensor)

    def _given(self, index: int) -> Tensor:
        tensor = self.tensors[index]
        if tensor is None:
            raise GraphError("an omitted operand is an input or output", where=f"operand {index}")
        return tensor

    def _cast(self, source: Tensor, dtype: DType, index: int) -> Tensor:
        made = Tensor(f"{source.name}_as_{dtype.name}", dtype, source.shape)
        made.has_rank = source.has_rank
        attrs = CastAttrs(source.dtype.name, dtype.name)
        origin = Origin.of(len(self.description.operations) + index, made.name)
        self._append(Op("CAST", [source], [made], attrs, origin))
        return made


def tensor_of(operand: Operand, index: int, is_input: bool = False) -> Tensor:
    """The tensor that stands for an operand; FLOAT16 that is not an input is held as FLOAT32."""
    name, dtype = operand.name or f"operand{index}", operand.code.dtype
    if operand.value is not None:
        widened = operand.value.astype("f4") if dtype is DType.FLOAT16 else operand.value
        return constant(name, widened, quant_of(operand))
    if dtype is DType.FLOAT16 and not is_input:
        dtype = DType.FLOAT32
    shape = tuple(size or None for size in operand.dims)
    tensor = Tensor(name, dtype, shape, quant_of(operand))
    tensor.has_rank = bool(shape) or operand.code.is_scalar
    return tensor


def quant_of(operand: Operand) -> Quantization | None:
    """The quantisation of an operand."""
    if operand.channel_scales:
        return Quantization.per_channel(operand.channel_scales, operand.channel_dim)
    if operand.scale:
        return Quantization.per_tensor(operand.scale, operand.zero_point)
    return None


def _ordered(description: Description) -> list[int]:
    """Operations, each after those that it reads from."""
    writers: dict[int, int] = {}
    for index, operation in enumerate(description.operations):
        for operand in operation.outputs:
            if operand in writers:
                where = description.operands[operand].name or f"operand{operand}"
                raise GraphError("two operations write one operand", where=where)
            writers[operand] = index
    waits = [{writers[i] for i in each.inputs if i in writers} for each in description.operations]
    done: list[int] = []
    ready = [index for index, before in enumerate(waits) if not before]
    readers: list[list[int]] = [[] for _ in waits]
    for index, before in enumerate(waits):
        for writer in before:
            readers[writer].append(index)
    while ready:
        index = ready.pop(0)
        done.append(index)
        for reader in readers[index]:
            waits[reader].discard(index)
            if not waits[reader]:
                ready.append(reader)
    if len(done) < len(waits):
        raise FormatError("operations wait for each other", why="the network has a cycle")
    return done
