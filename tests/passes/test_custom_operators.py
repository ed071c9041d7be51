"""What planning makes of custom operators: TRANSPOSE_CONV, and state that files do not name."""

from __future__ import annotations

from circlet.ir import DType
from circlet.ops.mediapipe.transpose_conv_bias import TransposeConvBiasAttrs
from circlet.ops.operands import known_ints, operand
from circlet.ops.signal.frames import DelayAttrs, FramerAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs
from circlet.ops.verify import verify, violations
from circlet.passes.add_states import add_states
from circlet.passes.decompose import Decompose
from tests.ops.custom_op import network
from tests.ops.test_mediapipe import transposed


def test_a_transposed_convolution_with_bias_names_its_sizes() -> None:
    graph = transposed(TransposeConvBiasAttrs("SAME", (2, 3)), (1, 4, 5, 3), (2, 4, 5, 3))
    (before,) = graph.ops
    assert Decompose().run(graph)
    (after,) = graph.ops
    assert (after.kind, after.origin) == ("TRANSPOSE_CONV", before.origin)
    assert known_ints(operand(after, 0)) == (1, 8, 14, 2)
    assert after.attributes(TransposeConvAttrs).padding == ((1, 1), (1, 2))
    assert after.outputs == before.outputs
    verify(graph)


def test_a_transposed_convolution_of_open_sizes_stays() -> None:
    graph = transposed(TransposeConvBiasAttrs(), (1, 4, 5, 3), (2, 2, 2, 3))
    graph.inputs[0].shape = (1, None, 5, 3)
    assert not Decompose().run(graph)


def test_operators_get_variables_for_what_they_keep() -> None:
    graph = network("SignalFramer", FramerAttrs(7, 3, True), [(DType.INT16, (2, 6))])
    add_states(graph)
    (op,) = graph.ops
    samples, count = operand(op, 1), operand(op, 2)
    assert (samples.shape, samples.is_variable, samples.initial) == ((2, 6), True, None)
    assert count.initial is not None
    assert count.initial.tolist() == [4]
    verify(graph)
    add_states(graph)
    assert graph.ops[0].inputs == op.inputs


def test_state_of_another_size_breaks_a_rule() -> None:
    graph = network("SignalDelay", DelayAttrs(2), [(DType.INT16, (2, 6))])
    add_states(graph)
    verify(graph)
    operand(graph.ops[0], 1).shape = (2, 9)
    found = list(violations(graph))
    assert any("state has another type or size" in fault.message for fault in found)
