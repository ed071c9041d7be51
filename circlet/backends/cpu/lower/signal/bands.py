"""Windows, energies and bands of them, in whole numbers: one call each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.signal.filter_bank import (
    LOGARITHMS_ABOVE,
    LogAttrs,
    PcanAttrs,
    SpectralSubtractionAttrs,
)
from circlet.ops.signal.spectrum import EnergyAttrs, WindowAttrs
from circlet.target.targets import Target

_MOST_ELEMENTS = 1 << 20
_WORD = (1 << 32) - 1
_NOTHING: dict[str, ParamValue] = {
    **dict.fromkeys(("count", "bits", "first", "last", "scale", "smoothing_bits"), 0),
    "rows": 1,
    "clamping": 0,
    "taken": [0, 0],
    "left": [0, 0],
    "min_remaining": 0,
}
Params = Callable[[Op], dict[str, ParamValue]]


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).elements > _MOST_ELEMENTS:
        return f"more than {_MOST_ELEMENTS} elements, which nothing could stop"
    return "a size is 0" if 0 in operand(op, 0).static_shape else None


def _refuses_computed_tables(op: Op, target: Target) -> str | None:
    tables = [operand(op, index) for index in range(1, len(op.inputs))]
    if not all(tensor.is_constant for tensor in tables):
        return "the bands are not constant"
    return _refuses(op, target)


def _row(code: str, step: str, params: Params, refuses: Callable[[Op, Target], str | None]) -> None:
    """A step whose operands are the op's inputs, its tables, and its outputs."""
    kernel = Kernel("signal.h", "signal", (f"SIGNAL_{step}",))

    def lower(op: Op, context: Context) -> None:
        values = _NOTHING | {"count": op.outputs[0].elements} | params(op)
        inputs: list[Ref] = [source_ref(context, t) for t in op.inputs if t is not None]
        if step == "LOG":
            inputs.append(context.constant(np.array(LOGARITHMS_ABOVE, np.int32)))
        operands = (*inputs, *map(TensorRef, op.outputs))
        states = [tensor for tensor in op.inputs if tensor is not None and tensor.is_variable]
        context.call(op, kernel, values, operands, (*op.outputs, *states))

    LOWERINGS.add(Lowering(f"CUSTOM:Signal{code}", f"signal_{step.lower()}", refuses, lower))


def _window(op: Op) -> dict[str, ParamValue]:
    count = operand(op, 1).elements
    rows = op.outputs[0].elements // count
    return {"count": count, "rows": rows, "bits": op.attributes(WindowAttrs).shift}


def _energy(op: Op) -> dict[str, ParamValue]:
    attrs = op.attributes(EnergyAttrs)
    return {"first": attrs.start_index, "last": attrs.end_index}


def _noise(op: Op) -> dict[str, ParamValue]:
    attrs = op.attributes(SpectralSubtractionAttrs)
    kept = attrs.one_minus_smoothing, attrs.alternate_one_minus_smoothing
    return {
        "bits": attrs.spectral_subtraction_bits,
        "smoothing_bits": attrs.smoothing_bits,
        "clamping": int(attrs.clamping),
        "taken": [attrs.smoothing & _WORD, attrs.alternate_smoothing & _WORD],
        "left": [number & _WORD for number in kept],
        "min_remaining": attrs.min_signal_remaining & _WORD,
    }


def _logarithm(op: Op) -> dict[str, ParamValue]:
    attrs = op.attributes(LogAttrs)
    return {"bits": attrs.input_correction_bits, "scale": attrs.output_scale & _WORD}


_row("Window", "WINDOW", _window, _refuses)
_row("FftAutoScale", "SCALE", lambda op: {}, _refuses)
_row("Energy", "ENERGY", _energy, _refuses)
_row("FilterBank", "BANK", lambda op: {}, _refuses_computed_tables)
_row("FilterBankSquareRoot", "ROOT", lambda op: {}, _refuses)
_row("FilterBankSpectralSubtraction", "NOISE", _noise, _refuses)
_row("PCAN", "GAIN", lambda op: {"bits": op.attributes(PcanAttrs).snr_shift}, _refuses)
_row("FilterBankLog", "LOG", _logarithm, _refuses)
