"""Mutations of .onnx files: as messages, which stay well-formed, and as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, defs, helper

from tests.corpora import ROOT
from tests.frontends import onnx_models
from tests.fuzz import mutate_bytes, values

MOST_BYTES = 100_000
FOLDERS = ("models", "light", "malformed")
_BYTES_SHARE = 0.3
_SIZES = (0, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**62, -1, -(2**63))
_MADE = ("scaled", "fixed", "reshaped", "rankless", "logical", "passed_through", "meaning")

Mutation = Callable[[Any, Random], None]


@cache
def originals() -> tuple[bytes, ...]:
    """The files that mutations start from, in the same order wherever the corpora are the same."""
    made = tuple(getattr(onnx_models, name)() for name in _MADE)
    return (*made, *_operators(), *_corpus())


def _corpus() -> Iterator[bytes]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.onnx")):
            if path.stat().st_size <= MOST_BYTES:
                yield path.read_bytes()


def _operators() -> Iterator[bytes]:
    """A network of one node for each operator of the standard, of as many inputs as it needs."""
    for schema in sorted(defs.get_all_schemas(), key=lambda schema: schema.name):
        if schema.domain:
            continue
        inputs = [f"x{index}" for index in range(max(1, schema.min_input))]
        outputs = [f"y{index}" for index in range(max(1, schema.min_output))]
        node = helper.make_node(schema.name, inputs, outputs)
        starts = [onnx_models.floats(name, [1, 2, 4, 4]) for name in inputs]
        ends = [onnx_models.floats(name, None) for name in outputs]
        yield onnx_models.model([node], starts, ends).SerializeToString()


def _node(proto: Any, random: Random) -> Any:
    return random.choice(proto.graph.node) if proto.graph.node else NodeProto()


def change_kind(proto: Any, random: Random) -> None:
    _node(proto, random).op_type = random.choice(_kinds())


@cache
def _kinds() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in defs.get_all_schemas()}))


def change_attribute(proto: Any, random: Random) -> None:
    node = _node(proto, random)
    if not node.attribute:
        return
    attribute = random.choice(node.attribute)
    name = attribute.name
    value = random.choice((random.choice(_SIZES), [random.choice(_SIZES)] * 3, 0.5, "x", [1.5]))
    node.attribute.remove(attribute)
    if random.random() < 0.8:
        node.attribute.append(helper.make_attribute(name, value))


def add_attribute(proto: Any, random: Random) -> None:
    node = _node(proto, random)
    if not defs.has(node.op_type):
        return
    known = sorted(defs.get_schema(node.op_type).attributes)
    present = {attribute.name for attribute in node.attribute}
    missing = [name for name in known if name not in present]
    if missing:
        value = random.choice((random.choice(_SIZES), [0, 1, 2, 3], [1], 1.5, "SAME_UPPER"))
        node.attribute.append(helper.make_attribute(random.choice(missing), value))


def rewire(proto: Any, random: Random) -> None:
    node = _node(proto, random)
    names = [name for other in proto.graph.node for name in (*other.input, *other.output)]
    if node.input and names:
        node.input[random.randrange(len(node.input))] = random.choice((*names, "", "nowhere"))


def change_count(proto: Any, random: Random) -> None:
    node = _node(proto, random)
    side = random.choice((node.input, node.output))
    if side and random.random() < 0.5:
        side.pop()
    else:
        side.append(f"more{len(side)}")


def change_size(proto: Any, random: Random) -> None:
    values_of = [*proto.graph.input, *proto.graph.output]
    dims = [dim for value in values_of for dim in value.type.tensor_type.shape.dim]
    if dims:
        dim = random.choice(dims)
        dim.Clear()
        if random.random() < 0.7:
            dim.dim_value = random.choice(_SIZES)


def change_type(proto: Any, random: Random) -> None:
    sides = [*proto.graph.input, *proto.graph.output]
    if sides:
        random.choice(sides).type.tensor_type.elem_type = random.randrange(0, 28)


def change_constant(proto: Any, random: Random) -> None:
    if not proto.graph.initializer:
        return
    tensor = random.choice(proto.graph.initializer)
    if tensor.dims and random.random() < 0.5:
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(_SIZES)
    elif random.random() < 0.5:
        tensor.data_type = random.randrange(0, 28)
    else:
        tensor.raw_data = random.randbytes(len(tensor.raw_data) or 8)


def make_constant(proto: Any, random: Random) -> None:
    """What the caller gives becomes a constant."""
    if proto.graph.input:
        value = random.choice(proto.graph.input)
        dims = [random.choice((0, 1, 2, 4)) for _ in range(random.randrange(4))]
        count = 1
        for size in dims:
            count *= size
        numbers = [random.choice(values.INTEGERS) % 100 for _ in range(count)]
        kind = random.choice((TensorProto.INT64, TensorProto.FLOAT))
        proto.graph.initializer.append(helper.make_tensor(value.name, kind, dims, numbers))


def drop(proto: Any, random: Random) -> None:
    side = random.choice((proto.graph.node, proto.graph.initializer, proto.graph.output))
    if side:
        side.pop(random.randrange(len(side)))


def change_version(proto: Any, random: Random) -> None:
    if proto.opset_import:
        proto.opset_import[0].version = random.choice((*range(5, 30), 0, -1, 2**40))


MUTATIONS: tuple[Mutation, ...] = (
    *(change_kind, change_kind, change_attribute, change_attribute, add_attribute, add_attribute),
    *(rewire, change_count, change_size, change_size, change_type, change_constant),
    *(change_constant, make_constant, make_constant, drop, change_version, change_version),
)


def make(random: Random) -> bytes:
    """A hostile file."""
    original = random.choice(originals())
    if random.random() < _BYTES_SHARE:
        return mutate_bytes.mutate(original, random)
    try:
        proto = ModelProto.FromString(original)
    except Exception:  # a seed that is broken already: the decoder's error is of no common class
        return mutate_bytes.mutate(original, random)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        random.choice(MUTATIONS)(proto, random)
    return bytes(proto.SerializeToString())
