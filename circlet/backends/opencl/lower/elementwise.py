"""Element-wise operators: chains of scalar expressions as one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.backends.opencl.emission import Argument, Constant, Emission
from circlet.backends.opencl.lowering import c_type, take
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.expr import Call, Const, Expr, Param, Scalar, Var, leaves, to_c
from circlet.ops.functions import NUMPY_TYPES
from circlet.ops.lut import EIGHT_BIT, table_of
from circlet.ops.opdef import find
from circlet.ops.operands import operand
from circlet.ops.scalars import element_scalar

MOST_TOGETHER = 16
_MOST_BUFFERS = 24  # devices take arguments of 1 KiB at least
_ELEMENTS = frozenset(
    {DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL}
)
_KINDS = {DType.FLOAT32: "f32", DType.FLOAT16: "f32", DType.INT64: "i64"}
_C_KINDS = {"f32": "float", "i32": "int", "i64": "long", "mask": "int"}
_NOT_LONG = frozenset({"div_trunc", "floor_div", "floor_mod", "pow"})
_SPELLINGS = {
    **{name: f"v_{name}_{{kind}}({{0}}, {{1}})" for name in ("add", "sub", "mul")},
    "neg": "v_neg_{kind}({0})",
    **{
        name: f"({{0}} {symbol} {{1}})"
        for name, symbol in (
            *(("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")),
            *(("eq", "=="), ("ne", "!=")),
        )
    },
    "to_f32": "(float)({0})",
    "to_i32": "v_to_i32_{kind}({0})",
    "to_i64": "v_to_i64_{kind}({0})",
}


def is_elementwise(op: Op) -> bool:
    """Whether an element of the op's result is an expression of one of each operand."""
    return len(op.outputs) == 1 and _scalar(op) is not None


def check_element(op: Op, emission: Emission) -> None:
    """Raise NotTakenError where the expression of an op has no OpenCL C on the device."""
    scalar = _scalar(op)
    assert scalar is not None
    result = op.outputs[0]
    halves = {DType.FLOAT16} if op.kind in ("CAST", "DEQUANTIZE") else set()
    take(result.dtype in _ELEMENTS | halves, f"gives {result.dtype.name}")
    for tensor in _operands(op):
        take(tensor.dtype in _ELEMENTS | halves, f"does not take {tensor.dtype.name}")
    is_wide = result.dtype is DType.INT64
    take(not is_wide or scalar.expr.kind == "i64", "64-bit integers are computed in 32 bits")
    calls = list(_calls(scalar.expr))
    whole = [call for call in calls if call.kind != "f32"]
    for call in calls:
        take(call.kind != "i64" or call.function not in _NOT_LONG, "64-bit integers are divided")
        exact = call.function != "nearest_ratio" or emission.facts.divides_exactly
        take(exact, "the device does not round float quotients exactly")
        in_double = call.function == "floor_div" and call.kind == "f32"
        take(not in_double or emission.facts.has_double, "the device has no float64")
    take(not any(call.function == "div" for call in whole), "integers are divided as reals")


def _calls(expr: Expr) -> list[Call]:
    if not isinstance(expr, Call):
        return []
    return [expr, *(call for arg in expr.args for call in _calls(arg))]


def _scalar(op: Op) -> Scalar | None:
    types = {operand(op, 0).dtype, *(result.dtype for result in op.outputs)}
    if op.kind == "CAST" and not types <= _ELEMENTS | {DType.FLOAT16}:
        return None
    if DType.FLOAT16 not in types:
        return element_scalar(op)
    plain = op.kind in ("CAST", "DEQUANTIZE") and types == {DType.FLOAT16, DType.FLOAT32}
    return Scalar(Var(0)) if plain else None


def _operands(op: Op) -> list[Tensor]:
    """The operands of an op's expression; scales of channels are among those of DEQUANTIZE."""
    source = operand(op, 0)
    if op.kind != "DEQUANTIZE" or source.quant is None or not source.quant.is_per_channel:
        return [tensor for tensor in op.inputs if tensor is not None]
    spread = [1] * len(source.static_shape)
    spread[source.quant.axis] = -1
    zero = source.quant.zero_point.astype(np.int32).reshape(spread)
    scale = source.quant.scale.astype(np.float32).reshape(spread)
    return [source, constant("zero points", zero), constant("scales", scale)]


def lower_elements(ops: Sequence[Op], emission: Emission, kept: frozenset[Tensor]) -> None:
    """Compute ops of one result shape, of which later ones may read earlier ones.

    Args:
        kept: The results that something else reads.
    """
    for op in ops:
        check_element(op, emission)
    text = _Text(emission, ops[-1].outputs[0].static_shape)
    for op in ops:
        text.compute(op, is_stored=op.outputs[0] in kept)
    count = ops[-1].outputs[0].elements
    kernel = emission.written("elements", text.source())
    emission.per_element(kernel, [*text.arguments, count], count)


def fits_together(ops: Sequence[Op]) -> bool:
    """Whether one kernel takes the buffers of so many ops."""
    tensors = {tensor for op in ops for tensor in (*_operands(op), *op.outputs)}
    return len(ops) <= MOST_TOGETHER and len(tensors) <= _MOST_BUFFERS


@dataclass
class _Text:
    """The text of a kernel that grows op by op.

    Attributes:
        arguments: Values of its parameters so far; the count comes behind them.
    """

    emission: Emission
    shape: tuple[int, ...]
    arguments: list[Argument | int] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: dict[Tensor, tuple[str, str]] = field(default_factory=dict)

    def source(self) -> str:
        """The kernel, with NAME for its name."""
        parameters = ", ".join([*self.parameters, "int count"])
        body = "".join(f"    {line}\n" for line in self.lines)
        guard = "    const int i = get_global_id(0);\n    if (i >= count) return;\n"
        return f"__kernel void NAME({parameters}) {{\n{guard}{body}}}\n"

    def compute(self, op: Op, *, is_stored: bool) -> None:
        """Append the statements of an op."""
        scalar = _scalar(op)
        assert scalar is not None
        known = [self._loaded(tensor) for tensor in _operands(op)]
        texts = self._param_texts(scalar)

        def leaf(node: Var | Param | Const) -> str:
            if isinstance(node, Var):
                return _as_kind(*known[node.index], node.kind)
            return texts[node] if isinstance(node, Param) else _literal(node)

        result, name = op.outputs[0], f"x{len(self.lines)}"
        kind = scalar.expr.kind
        value = to_c(scalar.expr, leaf, _SPELLINGS)
        self.lines.append(f"const {_C_KINDS[kind]} {name} = {value};")
        stored = _as_kind(name, kind, _KINDS.get(result.dtype, "i32"))
        if result.dtype is DType.FLOAT16:
            buffer = self._parameter("__global half *", result)
            self.lines.append(f"vstore_half_rte({stored}, i, {buffer});")
            return
        narrow = f"({c_type(result.dtype)})({stored})"
        if is_stored:
            buffer = self._parameter(f"__global {c_type(result.dtype)} *", result)
            self.lines.append(f"{buffer}[i] = {narrow};")
        # What later ops read is what a tensor of the result's type would hold.
        self.values[result] = (narrow, _KINDS.get(result.dtype, "i32"))

    def _parameter(self, declared: str, value: Argument | int) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters.append(f"{declared}{name}")
        self.arguments.append(value)
        return name

    def _loaded(self, tensor: Tensor) -> tuple[str, str]:
        if tensor in self.values:
            return self.values[tensor]
        is_half = tensor.dtype is DType.FLOAT16
        element = "half" if is_half else c_type(tensor.dtype)
        buffer = self._parameter(f"__global const {element} *", self.emission.value(tensor))
        index = self._index(tensor.static_shape)
        kind, name = _KINDS.get(tensor.dtype, "i32"), f"x{len(self.lines)}"
        loaded = f"vload_half({index}, {buffer})" if is_half else f"{buffer}[{index}]"
        self.lines.append(f"const {_C_KINDS[kind]} {name} = {loaded};")
        self.values[tensor] = (name, kind)
        return self.values[tensor]

    def _index(self, own: tuple[int, ...]) -> str:
        """Where the operand's element for element i lies."""
        axes = _spread(own, self.shape)
        if not axes:
            return "0"
        if len(axes) == 1 and axes[0][1] == 1:
            return "i"
        terms, rest = [], "i"
        for number, (size, step) in enumerate(reversed(axes)):
            is_last = number == len(axes) - 1
            if not is_last:
                name = self._parameter("int ", size)
                place, rest = f"({rest}) % {name}", f"({rest}) / {name}"
            else:
                place = rest
            if step:
                terms.append(
                    f"({place})" if step == 1 else f"({place}) * {self._parameter('int ', step)}"
                )
        return " + ".join(terms)

    def _param_texts(self, scalar: Scalar) -> Mapping[Param, str]:
        texts = {}
        for leaf in leaves(scalar.expr):
            if isinstance(leaf, Param):
                value = NUMPY_TYPES[leaf.kind].type(scalar.params[leaf.name])
                texts[leaf] = self._parameter(f"{_C_KINDS[leaf.kind]} ", value)
        return texts


def _spread(own: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Sizes of the result's axes and an operand's steps along them, neighbours joined."""
    padded = (1,) * (len(shape) - len(own)) + own
    axes: list[tuple[int, int]] = []
    step = 1
    for mine, size in zip(reversed(padded), reversed(shape), strict=True):
        given = 0 if mine == 1 else step
        step *= mine
        if size == 1:
            continue
        if axes and given == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0] * size, axes[-1][1])
        else:
            axes.append((size, given))
    return [] if all(not given for _, given in axes) else axes[::-1]


def _as_kind(text: str, own: str, kind: str) -> str:
    """A value of one kind as another."""
    if own == kind or (own == "mask" and kind == "i32"):
        return text
    return f"({_C_KINDS[kind]})({text})"


def _literal(node: Const) -> str:
    if node.kind == "i64":
        return f"({int(node.value)}l)" if node.value > -(1 << 63) else "(-9223372036854775807l - 1)"
    if node.kind != "f32":
        return f"({int(node.value)})" if node.value > -(1 << 31) else "(-2147483647 - 1)"
    number = float(np.float32(node.value))
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "(-INFINITY)" if number < 0 else "INFINITY"
    return f"({number.hex()}f)"


def is_table(op: Op) -> bool:
    """Whether the op is a function of one byte that has no expression."""
    record = find(op.label)
    if record is None or record.scalar is None or len(op.inputs) != 1 or len(op.outputs) != 1:
        return False
    types = {operand(op, 0).dtype, op.outputs[0].dtype}
    return types <= EIGHT_BIT and element_scalar(op) is None


def lower_table(op: Op, emission: Emission) -> None:
    """Compute a function of one byte by a table of its results."""
    table = table_of(op)
    take(table is not None, "it is no function of one operand")
    assert table is not None
    values = Constant(op.name, lambda: np.ascontiguousarray(table))
    source, result = emission.value(operand(op, 0)), op.outputs[0]
    kernel = emission.template("lut", {})
    emission.per_element(kernel, [source, values, result, result.elements], result.elements)
