"""What differs between operators, tensors and weights of two networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass

import numpy as np

from circlet.commands.alignment import real
from circlet.commands.measures import measures
from circlet.errors import FormatError, GraphError
from circlet.formats.options import codec_of
from circlet.ir import Model, Op, RawAttrs, Tensor
from circlet.ir.packed import unpacked
from circlet.words import counted

_BIASED = {"CONV_2D": 2, "CONV_3D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2}


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    Attributes:
        what: kind, attribute, operands, operators, name, shape, type, weights or
            cost.
        where: Which attribute, or which operand.
        first, second: What it is in each network; for weights how far they are apart.
    """

    what: str
    where: str
    first: str
    second: str


def op_differences(one: Op, other: Op) -> Iterator[Difference]:
    """What differs between two operators: kind or attributes, and their operands and results."""
    if one.label != other.label:
        yield Difference("kind", "", one.label, other.label)
    else:
        yield from _attributes(one, other)
    inputs = _inputs(one), _inputs(other)
    if len(inputs[0]) != len(inputs[1]):
        yield Difference("operands", "", *map(str, map(len, inputs)))
    for number, (a, b) in enumerate(zip(*inputs, strict=False)):
        if a is None or b is None or a.is_constant or b.is_constant:  # others are results, too
            yield from _tensor_differences(f"input {number}", a, b)
    for number, results in enumerate(zip(one.outputs, other.outputs, strict=False)):
        yield from _tensor_differences(f"output {number}", *results)


def _inputs(op: Op) -> Sequence[Tensor | None]:
    """The operands without a bias that is left out or 0, which formats ask for or do without."""
    if op.kind not in _BIASED or len(op.inputs) != _BIASED[op.kind] + 1:
        return op.inputs
    bias = op.inputs[-1]
    is_idle = bias is None or (bias.data is not None and not bias.data.any())
    return op.inputs[:-1] if is_idle else op.inputs


def _attributes(one: Op, other: Op) -> Iterator[Difference]:
    """Attributes that both files say; one that is left open follows from the operands."""
    first, second = _fields(one.attrs), _fields(other.attrs)
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        is_said = all(value is not None and value != () for value in (a, b))
        if is_said and a != b and not (name == "padding" and _is_one_word(one, other)):
            yield Difference("attribute", name, _text(a), _text(b))


def _is_one_word(one: Op, other: Op) -> bool:
    """Whether two paddings, by amounts or as SAME, are one where files say them."""
    said = []
    for op in (one, other):
        try:
            said.append(codec_of(op.kind, "circle").encode(type(op.attrs), op)["padding"])
        except (FormatError, GraphError):
            return False
    return said[0] == said[1]


def _fields(attrs: object) -> dict[str, object]:
    if isinstance(attrs, RawAttrs):
        return {"options": attrs.table, **attrs.fields, "custom": attrs.custom.hex()}
    if is_dataclass(attrs):
        return {f.name: getattr(attrs, f.name) for f in fields(attrs)}
    return {}


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _tensor_differences(where: str, a: Tensor | None, b: Tensor | None) -> Iterator[Difference]:
    if a is None or b is None:
        if a is not b:
            given = ("omitted" if tensor is None else "given" for tensor in (a, b))
            yield Difference("operands", where, *given)
        return
    if a.shape != b.shape:
        yield Difference("shape", where, _sizes(a), _sizes(b))
    types = _type(a), _type(b)
    if types[0] != types[1]:
        yield Difference("type", where, *types)
    if a.is_constant != b.is_constant:
        known = ("constant" if tensor.is_constant else "computed" for tensor in (a, b))
        yield Difference("weights", where, *known)
    elif a.is_constant:
        yield from _weight_differences(where, a, b)


def _weight_differences(where: str, a: Tensor, b: Tensor) -> Iterator[Difference]:
    assert a.data is not None and b.data is not None
    if a.data is b.data or (a.data.dtype == b.data.dtype and np.array_equal(a.data, b.data)):
        return
    one, other = real_values(a), real_values(b)
    if one is None or other is None or one.shape != other.shape:
        yield Difference("weights", where, f"{a.data.nbytes} bytes", f"{b.data.nbytes} other bytes")
        return
    found = measures(one, other)
    if found.different:
        share = (
            f"{found.different:.1%} of {counted(one.size, 'element differs', 'elements differ')}"
        )
        yield Difference("weights", where, share, f"by at most {found.largest:.4g}")


def real_values(tensor: Tensor) -> np.ndarray | None:
    """The elements of a constant as the numbers that they stand for; None where that is unknown."""
    data, dtype = tensor.data, tensor.dtype
    if data is None or data.dtype.hasobject or not (dtype.has_numpy or dtype.is_small):
        return None
    array, quant = unpacked(tensor) if dtype.is_small else data, tensor.quant
    if quant is None or not quant.is_affine or tensor.sparsity is not None:
        return np.asarray(array)
    numbers = array.astype(np.int64) if dtype.is_small else array
    return real(numbers, quant.scale.tolist(), quant.zero_point.tolist(), quant.axis)


def _type(tensor: Tensor) -> str:
    """The element type, and what stored integers stand for."""
    dtype, quant = tensor.dtype.name, tensor.quant
    if quant is None or (not quant.is_affine and quant.details is None):
        return dtype
    if not quant.is_affine:
        return f"{dtype}, {type(quant.details).__name__}"
    if quant.scale.size == 1:
        zero = quant.zero_point[0] if quant.zero_point.size else 0
        return f"{dtype}, scale {quant.scale[0]:.6g}, zero point {zero}"
    lowest, highest = quant.scale.min(), quant.scale.max()
    scales = f"{counted(quant.scale.size, 'scale')} on axis {quant.axis}"
    return f"{dtype}, {scales}, {lowest:.4g} to {highest:.4g}"


def _sizes(tensor: Tensor) -> str:
    return "x".join("?" if size is None else str(size) for size in tensor.shape) or "scalar"


def end_differences(first: Model, second: Model) -> Iterator[Difference]:
    """What differs between the inputs and outputs of two networks."""
    for role in ("inputs", "outputs"):
        ends: Sequence[list[Tensor]] = [getattr(model.main, role) for model in (first, second)]
        if len(ends[0]) != len(ends[1]):
            yield Difference("operands", role, *(str(len(tensors)) for tensors in ends))
        for number, (a, b) in enumerate(zip(*ends, strict=False)):
            where = f"network's {role[:-1]} {number}"
            if a.name != b.name:
                yield Difference("name", where, a.name, b.name)
            yield from _tensor_differences(where, a, b)
