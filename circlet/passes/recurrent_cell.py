"""Cells of recurrent layers that are spelled out: what their gates are computed of."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from circlet.ir import DType, Op, Tensor
from circlet.passes.match import is_plain, scalar_of

AFFINE = frozenset(
    {
        *("FULLY_CONNECTED", "BATCH_MATMUL", "ADD", "SUB", "CONCATENATION", "RESHAPE"),
        *("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK", "TRANSPOSE"),
    }
)
_MOST_OPS = 32
Producers = dict[Tensor, Op]


@dataclass(frozen=True)
class Cell:
    """A step in a graph, by the equations of ONNX.

    An LSTM's is `i, o, f = logistic, g = tanh; c = f * c + i * g; h = o * tanh(c)`, a GRU's
    `z, r = logistic; n = tanh(a + r * b); h = (1 - z) * n + z * h`, where the product may also come
    in front of the weights, an RNN's `h = tanh(a)`.

    Attributes:
        kind: "LSTM", "GRU" or "RNN".
        gates: What the functions are computed of, in the order of ONNX: i, o, f and g; z, r, a and
            b, or z and r alone; a.
        shown: The output of the step.
        state, before: The cell state of an LSTM behind the step and in front of it.
        candidate, reset: Of a GRU whose reset gate comes in front of the weights: what tanh is
            computed of, and the gate times the output before.
        last: The output before, where the equation itself reads it.
    """

    kind: str
    gates: tuple[Tensor, ...]
    shown: Tensor
    state: Tensor | None = None
    before: Tensor | None = None
    candidate: Tensor | None = None
    reset: Tensor | None = None
    last: Tensor | None = None


def cells_of(made: Producers, shown: Tensor) -> Iterator[Cell]:
    """The cells whose step may compute an output, by the ops that make tensors."""
    op = made.get(shown)
    if op is None or shown.dtype is not DType.FLOAT32:
        return
    if op.kind == "MUL":
        yield from _lstm_cells(made, shown)
    elif op.kind == "ADD":
        yield from _gru_cells(made, shown)
    elif op.kind == "TANH" and op.inputs[0] is not None:
        yield Cell("RNN", (op.inputs[0],), shown)


def _lstm_cells(made: Producers, shown: Tensor) -> Iterator[Cell]:
    for output_gate, value in _gated(shown, made):
        state = _argument(value, "TANH", made)
        for kept, new in _terms(state, made):
            for forget_gate, before in _gated(kept, made):
                for input_gate, candidate in _gated(new, made):
                    cell_gate = _argument(candidate, "TANH", made)
                    if cell_gate is not None:
                        gates = input_gate, output_gate, forget_gate, cell_gate
                        yield Cell("LSTM", gates, shown, state, before)


def _gru_cells(made: Producers, shown: Tensor) -> Iterator[Cell]:
    for update, new, last in _mixed(made, shown):
        argument = _argument(new, "TANH", made)
        if argument is None:
            continue
        for of_data, product in _terms(argument, made):
            for reset_gate, of_state in _gated(product, made):
                yield Cell("GRU", (update, reset_gate, of_data, of_state), shown, last=last)
        reset = _reset_product(made, argument, last)
        for gate, value in _gated(reset, made):
            if value is last:
                gates = update, gate
                yield Cell("GRU", gates, shown, candidate=argument, reset=reset, last=last)


def _mixed(made: Producers, shown: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """What z sees, n and h where a tensor is `(1 - z) * n + z * h` or `n + z * (h - n)`."""
    for kept, new in _terms(shown, made):
        for weight, last in _factors(kept, made):
            update = _argument(weight, "LOGISTIC", made)
            if update is None:
                continue
            for rest, candidate in _factors(new, made):
                if _is_rest(made, rest, weight):
                    yield update, candidate, last
            minuend, subtrahend = _difference(last, made)
            if subtrahend is new and minuend is not None:
                yield update, new, minuend


def _is_rest(made: Producers, rest: Tensor, weight: Tensor) -> bool:
    """Whether a tensor is 1 less another one."""
    minuend, subtrahend = _difference(rest, made)
    return subtrahend is weight and scalar_of(minuend) == 1.0


def _difference(tensor: Tensor, made: Producers) -> tuple[Tensor | None, Tensor | None]:
    op = made.get(tensor)
    return (None, None) if op is None or not is_plain(op, "SUB") else (op.inputs[0], op.inputs[1])


def _reset_product(made: Producers, argument: Tensor, last: Tensor) -> Tensor | None:
    """A product with the output before among what sums lead to an argument."""
    found = leading_to(made, [argument])
    return next((t for t in found[1] if any(v is last for _, v in _gated(t, made))), None)


def _terms(tensor: Tensor | None, made: Producers) -> list[tuple[Tensor, Tensor]]:
    return _operands(tensor, "ADD", made)


def _factors(tensor: Tensor | None, made: Producers) -> list[tuple[Tensor, Tensor]]:
    return _operands(tensor, "MUL", made)


def _operands(tensor: Tensor | None, kind: str, made: Producers) -> list[tuple[Tensor, Tensor]]:
    """Both operands of what makes a tensor, in both orders; none where another kind does."""
    op = None if tensor is None else made.get(tensor)
    if op is None or not is_plain(op, kind):
        return []
    first, second = op.inputs
    return [] if first is None or second is None else [(first, second), (second, first)]


def _gated(tensor: Tensor | None, made: Producers) -> list[tuple[Tensor, Tensor]]:
    """What a LOGISTIC reads, and what it is multiplied with, where a tensor is such a product."""
    pairs = _factors(tensor, made)
    found = [(_argument(first, "LOGISTIC", made), second) for first, second in pairs]
    return [(gate, value) for gate, value in found if gate is not None]


def _argument(tensor: Tensor | None, kind: str, made: Producers) -> Tensor | None:
    op = None if tensor is None else made.get(tensor)
    return op.inputs[0] if op is not None and op.kind == kind else None


def leading_to(
    made: Producers, results: list[Tensor], *given: Container[Tensor | None]
) -> tuple[list[Op], list[Tensor]]:
    """The affine ops that lead to results, and the tensors that these are computed of.

    Tensors that are given are gone behind no further, and constants do not count. Where there are
    many ops the answer is none.
    """
    order: dict[Op, None] = {}
    leaves: dict[Tensor, None] = {}
    waiting: list[Tensor | None] = [*results]
    while waiting:
        tensor = waiting.pop()
        if tensor is None or tensor.is_constant:
            continue
        op = None if any(tensor in each for each in given) else made.get(tensor)
        if op is None or op.kind not in AFFINE:
            leaves[tensor] = None
        elif len(order) > _MOST_OPS:
            return [], results
        elif op not in order:
            order[op] = None
            waiting += op.inputs
    return list(order), list(leaves)
