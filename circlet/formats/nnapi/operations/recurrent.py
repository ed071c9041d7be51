"""Recurrent layers, whose states are operands and results."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.operations.own import own
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType, Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.nnapi.record import PREFIX, Scalar, scalars

# Numbers that the operations give to activations of cells.
_ACTIVATIONS = {
    0: "NONE",
    1: "RELU",
    2: "RELU_N1_TO_1",
    3: "RELU6",
    4: "TANH",
    6: "LOGISTIC",
}
_LSTM, _RNN = f"CUSTOM:{PREFIX}LSTM_SEQUENCE", f"CUSTOM:{PREFIX}RNN_SEQUENCE"
_OWN = 17  # weights, biases and projection of one direction of an LSTM


def _activation(call: Call, index: int) -> str:
    code = call.whole(index)
    if code not in _ACTIVATIONS:
        raise call.wrong("an activation is unknown", f"ActivationFunctor {code}")
    return _ACTIVATIONS[code]


def _cells(call: Call, first: int) -> dict[str, Scalar]:
    """The activation and the clips that stand at three inputs."""
    return {
        "activation": _activation(call, first),
        "cell_clip": call.real(first + 1),
        "proj_clip": call.real(first + 2),
    }


def _given(call: Call, indices: Sequence[int]) -> list[Tensor | None]:
    return [call.optional(index) for index in indices]


def _new(call: Call, name: str) -> Tensor:
    """A result that no operand of the operation holds."""
    return Tensor(f"{call.name}_{name}", DType.FLOAT32, (), None, has_rank=False)


def _outputs(call: Call, *names: tuple[int, str]) -> list[Tensor]:
    """Outputs by number, or new tensors where the operation has none of that number."""
    has = len(call.outputs)
    return [call.output(at) if at < has else _new(call, name) for at, name in names]


@lowers("LSTM")
def _lstm(call: Call) -> None:
    """The first output is memory to work in, whose contents mean nothing; it is made of zeros."""
    given = _given(call, [*range(20), *range(23, 27)])
    made = [call.output(3), call.output(1), call.output(2)]
    call.many(_LSTM, given, made, scalars(**_cells(call, 20)))
    gates = 4 if call.optional(1) else 3
    wide = call.op("CONCATENATION", [made[2]] * gates, ConcatenationAttrs(1))
    call.result("ZEROS_LIKE", [wide])


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm_sequence(call: Call) -> None:
    given = _given(call, [*range(20), *range(24, 28)])
    made = _outputs(call, (0, "outputs"), (1, "output_state"), (2, "cell_state"))
    values = _cells(call, 20) | {"time_major": call.flag(23)}
    call.many(_LSTM, given, made, scalars(**values))


@lowers("BIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm_both_ways(call: Call) -> None:
    """Without weights of its own an auxiliary input is what the backward direction reads."""
    merged, crossed = call.flag(51), call.optional(41) is not None
    values = _cells(call, 48) | {"time_major": call.flag(52)}
    results = _direction_results(call, merged, ("output_state", "cell_state"))
    for turn, made in enumerate(results):
        data = 39 if turn and call.optional(39) and not crossed else 0
        first, state, aux = 1 + _OWN * turn, 35 + 2 * turn, 40 + 4 * turn
        places = [data, *range(first, first + _OWN), state, state + 1]
        norms = range(53 + 4 * turn, 57 + 4 * turn)
        given = _given(call, [*places, *norms])
        if crossed:
            given += _given(call, [39, *range(aux, aux + 4)])
        call.many(_LSTM, given, made, scalars(**values, backward=bool(turn)))
    if merged:
        _merge(call, results)


def _direction_results(
    call: Call, merged: bool, states: tuple[str, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """For both directions the outputs and the states behind the last step."""
    first = 1 if merged else 2
    directions = []
    for turn, way in enumerate(("forward", "backward")):
        data = _new(call, way) if merged else call.output(turn)
        places = range(first + len(states) * turn, first + len(states) * (turn + 1))
        named = [(at, f"{way}_{name}") for at, name in zip(places, states, strict=True)]
        directions.append([data, *_outputs(call, *named)])
    return directions[0], directions[1]


def _merge(call: Call, results: tuple[list[Tensor], list[Tensor]]) -> None:
    call.result("CONCATENATION", [results[0][0], results[1][0]], ConcatenationAttrs(2))


@lowers("RNN")
def _rnn(call: Call) -> None:
    values = scalars(activation=_activation(call, 5))
    call.many(_RNN, _given(call, range(5)), [call.output(1), call.output(0)], values)


@lowers("UNIDIRECTIONAL_SEQUENCE_RNN")
def _rnn_sequence(call: Call) -> None:
    """Time comes first where the last input is not 0."""
    values = scalars(activation=_activation(call, 5), time_major=call.flag(6))
    call.many(_RNN, _given(call, range(5)), _outputs(call, (0, "outputs"), (1, "state")), values)


@lowers("BIDIRECTIONAL_SEQUENCE_RNN")
def _rnn_both_ways(call: Call) -> None:
    """As that of an LSTM: an auxiliary input without weights is for the backward direction."""
    merged, crossed = call.flag(14), call.optional(10) is not None
    results = _direction_results(call, merged, ("state",))
    for turn, made in enumerate(results):
        data = 9 if turn and call.optional(9) and not crossed else 0
        given = _given(call, [data, *range(1 + 4 * turn, 5 + 4 * turn)])
        given += _given(call, [9, 10 + turn]) if crossed else []
        values = scalars(
            activation=_activation(call, 12), time_major=call.flag(13), backward=bool(turn)
        )
        call.many(_RNN, given, made, values)
    if merged:
        _merge(call, results)


@lowers("SVDF")
def _svdf(call: Call) -> None:
    values = scalars(rank=call.whole(5), activation=_activation(call, 6))
    made = [call.output(0), call.output(1)]
    call.many(f"CUSTOM:{PREFIX}SVDF", _given(call, range(5)), made, values)


@lowers("QUANTIZED_16BIT_LSTM")
def _quantised_lstm(call: Call) -> None:
    own(call, 15, 2)
