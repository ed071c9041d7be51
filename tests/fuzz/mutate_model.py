"""Mutations of a network that is then written anew: a sound file of a hostile network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from circlet.formats import dumps, load
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ops import all_records
from circlet.ops.build import default_attrs
from tests.fuzz import values
from tests.fuzz.mutate_attrs import change_attribute

Mutation = Callable[[Graph, Random, Model], None]
_KINDS = [record.kind for record in all_records() if ":" not in record.kind]


def _tensor(graph: Graph, random: Random) -> Tensor:
    """Some tensor, one that an op uses where there are ops."""
    used = list(graph.used_tensors())
    return random.choice(used or graph.tensors)


def _resize(tensor: Tensor, shape: tuple[int | None, ...]) -> None:
    tensor.shape, tensor.default_shape = shape, None


def change_size(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    if tensor.shape:
        shape = [*tensor.shape]
        shape[random.randrange(len(shape))] = values.size(random)
        _resize(tensor, tuple(shape))
        _refill(tensor, random, 0.8)


def change_rank(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    shape = [*tensor.shape]
    if shape and random.random() < 0.5:
        shape.pop(random.randrange(len(shape)))
    else:
        shape.insert(random.randrange(len(shape) + 1), random.choice((1, 1, 2, 0)))
    _resize(tensor, tuple(shape))
    _refill(tensor, random, 0.8)


def change_shape(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    _resize(tensor, values.shape(random))
    _refill(tensor, random, 0.8)


def change_dtype(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    tensor.dtype = random.choice(values.DTYPES)
    _refill(tensor, random, 0.8)


def change_family(graph: Graph, random: Random, model: Model) -> None:
    """Give every tensor of one type another one: a network of that type throughout."""
    old, new = _tensor(graph, random).dtype, random.choice(values.DTYPES)
    for tensor in graph.tensors:
        if tensor.dtype is old:
            tensor.dtype = new
            _refill(tensor, random, 1)


def change_quant(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    tensor.quant = values.quantization(tensor.shape, random)


def change_data(graph: Graph, random: Random, model: Model) -> None:
    constants = list(graph.constants())
    if constants:
        _refill(random.choice(constants), random, 1)


def free_constant(graph: Graph, random: Random, model: Model) -> None:
    """Let the caller give what the file said: shapes, axes and indices are then data."""
    constants = list(graph.constants())
    if constants:
        tensor = random.choice(constants)
        tensor.data = tensor.sparsity = None
        graph.inputs.append(tensor)


def fix_input(graph: Graph, random: Random, model: Model) -> None:
    """Have the file say what the caller gave."""
    if graph.inputs:
        tensor = graph.inputs.pop(random.randrange(len(graph.inputs)))
        if tensor.dtype.has_numpy and tensor.elements <= 1 << 16:
            tensor.shape, tensor.default_shape = tensor.static_shape, None
            tensor.data = values.array(tensor.dtype, tensor.static_shape, random)


def open_sizes(graph: Graph, random: Random, model: Model) -> None:
    """Leave the sizes of computed tensors to inference."""
    share = random.choice((0.3, 1))
    for tensor in graph.tensors:
        if not tensor.is_constant and random.random() < 0.1:
            tensor.shape, tensor.default_shape, tensor.has_rank = (), None, False
        elif not tensor.is_constant and random.random() < share:
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)


def rewire(graph: Graph, random: Random, model: Model) -> None:
    """Change one input of an op: another tensor, none, one more or one less."""
    op = random.choice(graph.ops)
    place = random.randrange(len(op.inputs) + 1)
    style = random.random()
    if place == len(op.inputs) or style < 0.15:
        op.inputs.insert(place, random.choice([None, _tensor(graph, random)]))
    elif style < 0.3:
        op.inputs.pop(place)
    elif style < 0.4:
        op.inputs[place] = None
    else:
        op.inputs[place] = _tensor(graph, random)


def rewire_output(graph: Graph, random: Random, model: Model) -> None:
    op = random.choice(graph.ops)
    style = random.random()
    if op.outputs and style < 0.3:
        op.outputs.pop(random.randrange(len(op.outputs)))
    elif style < 0.6:
        op.outputs.append(graph.add_tensor(_tensor(graph, random).like("more")))
    elif op.outputs:
        op.outputs[random.randrange(len(op.outputs))] = _tensor(graph, random)


def change_ends(graph: Graph, random: Random, model: Model) -> None:
    ends = random.choice((graph.inputs, graph.outputs))
    if ends and random.random() < 0.3:
        ends.pop(random.randrange(len(ends)))
    else:
        ends.insert(random.randrange(len(ends) + 1), _tensor(graph, random))


def change_options(graph: Graph, random: Random, model: Model) -> None:
    change_attribute(random.choice(graph.ops), random)


def change_kind(graph: Graph, random: Random, model: Model) -> None:
    op = random.choice(graph.ops)
    kind = random.choice(_KINDS)
    attrs = _attrs(kind, random)
    if attrs is not None:
        op.kind, op.attrs, op.custom_code, op.extra = kind, attrs, "", {}


def append_op(graph: Graph, random: Random, model: Model) -> None:
    """One more op on tensors that are there; what it makes becomes an output."""
    kind = random.choice(_KINDS)
    attrs = _attrs(kind, random)
    if attrs is None:
        return
    inputs: list[Tensor | None] = [
        _tensor(graph, random) for _ in range(random.choice((1, 1, 2, 3)))
    ]
    made = graph.add_tensor(_tensor(graph, random).like("made"))
    made.data, made.shape, made.has_rank = None, (None,) * len(made.shape), False
    graph.ops.append(Op(kind, inputs, [made], attrs, graph.ops[0].origin))
    graph.outputs.append(made)


def repeat_op(graph: Graph, random: Random, model: Model) -> None:
    """Feed an op's result to the same op again."""
    op = random.choice(graph.ops)
    if op.outputs and op.inputs:
        made = [graph.add_tensor(tensor.like()) for tensor in op.outputs]
        again = replace(op, inputs=[op.outputs[0], *op.inputs[1:]], outputs=made)
        graph.ops.insert(graph.ops.index(op) + 1, again)
        graph.outputs.append(made[0])


def drop_op(graph: Graph, random: Random, model: Model) -> None:
    graph.ops.pop(random.randrange(len(graph.ops)))


def toggle_variable(graph: Graph, random: Random, model: Model) -> None:
    tensor = _tensor(graph, random)
    tensor.is_variable = not tensor.is_variable


def call_others(graph: Graph, random: Random, model: Model) -> None:
    """Have an op run other graphs of the model, or other ones than it did."""
    callers = [op for op in graph.ops if op.regions]
    if callers and len(model.graphs) > 1:
        op = random.choice(callers)
        op.regions[random.randrange(len(op.regions))] = random.choice(model.graphs)


def swap_graphs(graph: Graph, random: Random, model: Model) -> None:
    random.shuffle(model.graphs)


MUTATIONS: tuple[Mutation, ...] = (
    *(change_size, change_size, change_rank, change_shape, change_dtype, change_family),
    *(change_quant, change_data, change_data, free_constant, fix_input, rewire, rewire_output),
    *(change_ends, change_options, change_options, change_options, change_kind, append_op),
    *(repeat_op, drop_op, toggle_variable, call_others, swap_graphs),
)


def mutate(data: bytes, random: Random) -> bytes:
    """The file of a network that was changed in a few places; CircletError if none can be made."""
    model = load(data)
    for _ in range(random.choice((1, 1, 2, 2, 3, 5))):
        graph = random.choice(model.graphs)
        if graph.tensors and graph.ops:
            random.choice(MUTATIONS)(graph, random, model)
    if random.random() < 0.6:
        for graph in model.graphs:
            open_sizes(graph, random, model)
    model.signatures = []
    for op in (op for graph in model.graphs for op in graph.ops):
        op.requantization = None  # files cannot say that of changed kinds and types
    return dumps(model)


def _attrs(kind: str, random: Random) -> object | None:
    try:
        return default_attrs(kind)
    except Exception:
        return None


def _refill(tensor: Tensor, random: Random, chance: float) -> None:
    """Give a constant data of its present type and shape, mostly; else leave what it had."""
    if tensor.data is None or random.random() > chance:
        return
    shape = tensor.static_shape
    if tensor.dtype.has_numpy and tensor.elements <= 1 << 16 and len(shape) <= 32:
        _resize(tensor, shape)
        tensor.data, tensor.sparsity = values.array(tensor.dtype, shape, random), None
