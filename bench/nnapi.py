"""What the Android Neural Networks API costs beside the file's door, for one network.

Compiling is timed without a cache, after one round to warm up: the file opened as a session, and
the same network built call by call, finished and compiled.

Executions are timed beside `Session.run` and a bound call: all of an execution's life with buffers
of before, the same without its computation, and a reusable execution computed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from bench.arguments import add_rounds, parser
from bench.bound_call import time_calls, tiny_network
from circlet import Session
from circlet.formats import load
from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Description, Operand
from circlet.formats.nnapi.from_model import describe
from circlet.frontends.nnapi import Compilation, Execution, Model, OperandType

_CALLS = 2000


def built(description: Description) -> Model:
    """The model of a description, made by calls as a program makes it."""
    model = Model()
    for operand in description.operands:
        index = model.add_operand(_type(operand))
        if operand.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
            scales = operand.channel_scales
            model.set_operand_symm_per_channel_quant_params(index, operand.channel_dim, scales)
        if operand.value is not None or operand.is_omitted:
            model.set_operand_value(index, operand.value)
    for each in description.operations:
        model.add_operation(each.kind, each.inputs, each.outputs)
    model.identify_inputs_and_outputs(description.inputs, description.outputs)
    model.finish()
    return model


def _type(operand: Operand) -> OperandType:
    return OperandType(operand.code, operand.dims, operand.scale, operand.zero_point)


def compiled(description: Description) -> Compilation:
    """The compilation of a description, from nothing."""
    compilation = Compilation(built(description))
    compilation.finish()
    return compilation


class Buffers:
    """Buffers of one network, and ways to run it on them."""

    def __init__(self, session: Session, compilation: Compilation) -> None:
        self.session, self.compilation = session, compilation
        self.inputs = [np.zeros(value.shape, value.dtype) for value in session.inputs]
        self.outputs = [np.zeros(value.shape, value.dtype) for value in session.outputs]

    def execution(self) -> Execution:
        """An execution whose buffers are given."""
        execution = Execution(self.compilation)
        for index, array in enumerate(self.inputs):
            execution.set_input(index, array)
        for index, array in enumerate(self.outputs):
            execution.set_output(index, array)
        return execution

    def whole(self) -> None:
        """All of an execution's life."""
        execution = self.execution()
        execution.compute()
        execution.free()

    def ways(self) -> dict[str, Callable[[], object]]:
        """Ways of running, by name."""
        again = self.execution
        reusable = Execution(self.compilation)
        reusable.set_reusable(True)
        for index, array in enumerate(self.inputs):
            reusable.set_input(index, array)
        for index, array in enumerate(self.outputs):
            reusable.set_output(index, array)
        return {
            "session.run()": lambda: self.session.run(self.inputs),
            "bound.run()": self.session.bind(self.inputs).run,
            "an execution, made to freed": self.whole,
            "the same, not computed": lambda: again().free(),
            "execution.compute(), reusable": reusable.compute,
        }


def main(arguments: Sequence[str]) -> None:
    """Print both comparisons."""
    known = parser("nnapi", __doc__)
    known.add_argument("model", nargs="?", type=Path, help="a .tflite file; else one RELU")
    add_rounds(known, 5)
    options = known.parse_args(arguments)
    data = options.model.read_bytes() if options.model else tiny_network()
    description = describe(load(data))
    print("compiling       seconds")
    doors: dict[str, Callable[[], object]] = {
        "the file": lambda: Session(data, cache=False),
        "the API": lambda: compiled(description),
    }
    times: dict[str, list[float]] = {name: [] for name in doors}
    os.environ["CIRCLET_CACHE_BYTES"] = "0"
    for _ in range(options.rounds + 1):
        for name, door in doors.items():
            start = perf_counter()
            door()
            times[name].append(perf_counter() - start)
    for name, found in times.items():
        print(f"{name:14}  {median(found[1:]):7.3f}")
    print("running                         median     fastest")
    for name, call in Buffers(Session(data), compiled(description)).ways().items():
        rounds = time_calls(call, _CALLS if options.model is None else 50, options.rounds)
        print(f"{name:29} {median(rounds):9.0f} ns {min(rounds):9.0f} ns")
