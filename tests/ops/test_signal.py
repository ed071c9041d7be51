"""TFLite Micro's Signal library: numbers by hand, and its own interpreter beside ours."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import FormatError, GraphError
from circlet.formats.flexbuffer_writer import flexbuffer_map
from circlet.formats.options import decode_custom
from circlet.ir import DType, Graph
from circlet.ops.opdef import NoAttrs
from circlet.ops.signal.filter_bank import (
    FilterBankAttrs,
    LogAttrs,
    PcanAttrs,
    SpectralSubtractionAttrs,
)
from circlet.ops.signal.frames import DelayAttrs, FramerAttrs, OverlapAddAttrs, StackerAttrs
from circlet.ops.signal.spectrum import EnergyAttrs, FftAttrs, WindowAttrs
from circlet.ops.verify import verify
from tests.corpora import corpus
from tests.ops.custom_op import micro_interpreter, micro_outputs, network, outputs, session

I16, I32, U32, U64, F32 = (
    DType.INT16,
    DType.INT32,
    DType.UINT32,
    DType.UINT64,
    DType.FLOAT32,
)
BITS, WORDS = np.array([3], np.int16), np.array([0, 0], np.int16)
GAINS = np.random.default_rng(0).integers(0, 20000, 125, np.int16)
WEIGHTS = np.random.default_rng(1).integers(-4096, 4096, 40, np.int16)
SUBTRACTION = SpectralSubtractionAttrs(6, 655, 15729, 983, 15401, 10, 14, 819)


def bank() -> Graph:
    starts = np.array([0, 2, 5, 9], np.int16)
    widths = np.array([2, 3, 4, 8], np.int16)
    places = np.array([0, 4, 8, 12], np.int16)
    tables = [WEIGHTS, 4096 - WEIGHTS, starts, places, widths]
    return network("SignalFilterBank", FilterBankAttrs(3), [(U32, (20,)), *tables])


def subtraction(clamping: bool) -> Graph:
    attrs = SpectralSubtractionAttrs(**{**vars(SUBTRACTION), "clamping": clamping})
    return network("SignalFilterBankSpectralSubtraction", attrs, [(U32, (6,))])


NETWORKS = {
    "window": network(
        "SignalWindow",
        WindowAttrs(12),
        [(I16, (2, 8)), np.array([0, 500, 4096, 32767, -32768, 32767, 9, 1], np.int16)],
    ),
    "scale": network("SignalFftAutoScale", NoAttrs(), [(I16, (12,))]),
    "fft16": network("SignalRfft", FftAttrs(256), [(I16, (200,))]),
    "fft16-rows": network("SignalRfft", FftAttrs(240), [(I16, (2, 240))]),
    "fft32": network("SignalRfft", FftAttrs(60), [(I32, (60,))]),
    "fft-float": network("SignalRfft", FftAttrs(512), [(F32, (480,))]),
    "ifft16": network("SignalIrfft", FftAttrs(128), [(I16, (130,))]),
    "ifft32": network("SignalIrfft", FftAttrs(60), [(I32, (62,))]),
    "ifft-float": network("SignalIrfft", FftAttrs(256), [(F32, (258,))]),
    "energy": network("SignalEnergy", EnergyAttrs(0, 8), [(I16, (16,))]),
    "bank": bank(),
    "root": network("SignalFilterBankSquareRoot", NoAttrs(), [(U64, (32,)), np.array(3, np.int32)]),
    "noise": subtraction(False),
    "clamped-noise": subtraction(True),
    "gain": network("SignalPCAN", PcanAttrs(6), [(U32, (16,)), (U32, (16,)), GAINS]),
    "log": network("SignalFilterBankLog", LogAttrs(3, 1600), [(U32, (64,))]),
    "frames": network("SignalFramer", FramerAttrs(7, 3), [(I16, (6,))]),
    "full-frames": network("SignalFramer", FramerAttrs(8, 4, True), [(I16, (2, 8))]),
    "overlap": network("SignalOverlapAdd", OverlapAddAttrs(3), [(I16, (2, 4, 7))]),
    "overlap-float": network("SignalOverlapAdd", OverlapAddAttrs(2), [(F32, (3, 5))]),
    "delay": network("SignalDelay", DelayAttrs(5), [(I16, (2, 3))]),
    "no-delay": network("SignalDelay", DelayAttrs(0), [(I16, (4,))]),
    "stack": network("SignalStacker", StackerAttrs(3, 2, 1, 2), [(I16, (3,))]),
    "stack-of-one": network("SignalStacker", StackerAttrs(4, 0, 0, 1), [(I16, (4,))]),
}


def some(graph: Graph, seed: int) -> list[np.ndarray]:
    """Values of all sizes for the inputs; edges of the types among them."""
    random = np.random.default_rng(seed)
    made = []
    for tensor in graph.inputs:
        shape, dtype = tensor.static_shape, tensor.dtype.numpy
        if tensor.dtype is F32:
            made.append(random.normal(size=shape).astype(np.float32))
            continue
        limits = np.iinfo(tensor.dtype.name.lower())
        values = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values >>= random.integers(0, limits.bits, shape).astype(dtype)
        values.reshape(-1)[seed % values.size] = (limits.min, limits.max, 0)[seed % 3]
        made.append(values)
    return made


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_tflite_micro_run_for_run(name: str) -> None:
    graph = NETWORKS[name]
    peer, ours = micro_interpreter(graph), session(graph)
    for seed in range(12):
        arrays = some(graph, seed)
        wanted = micro_outputs(peer, len(graph.outputs), *arrays)
        found = outputs(ours, *arrays)
        if found[-1].dtype == np.bool_ and not found[-1]:
            wanted[0] = found[0]  # what TFLite Micro leaves there is not defined
        for left, right in zip(found, wanted, strict=True):
            if left.dtype == np.float32:
                np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(left, right)


def test_a_spectrum_of_16_bits_is_scaled_by_its_length() -> None:
    x = np.array([1000, -2000, 3000, 4000, 0, 0, 32767, -32768], np.int16)
    (found,) = outputs(session(network("SignalRfft", FftAttrs(8), [(I16, (8,))])), x)
    wanted = np.fft.rfft(x) / 8
    np.testing.assert_allclose(found[0::2], wanted.real, atol=3)
    np.testing.assert_allclose(found[1::2], wanted.imag, atol=3)


def test_a_sample_without_a_size_starts_the_search_for_the_largest_anew() -> None:
    opened = session(network("SignalFftAutoScale", NoAttrs(), [(I16, (3,))]))
    for x, bits in (([-32768, 5, 1], 12), ([9, 2, -32768], 0), ([0, 0, 0], 0), ([1, 0, 0], 14)):
        scaled, found = outputs(opened, np.array(x, np.int16))
        assert found == bits
        wanted = (np.array(x, np.int32) << bits).astype(np.int16)
        np.testing.assert_array_equal(scaled, wanted)


def test_energy_is_zero_outside_of_the_wanted_bins() -> None:
    graph = network("SignalEnergy", EnergyAttrs(1, 3), [(I16, (8,))])
    (found,) = outputs(session(graph), np.array([3, 4, -32768, -32768, 1, 2, 5, 5], np.int16))
    assert found.tolist() == [0, 2**31, 5, 0]


def test_roots_are_rounded_and_shifted() -> None:
    values = [0, 1, 2, 3, 6, 7, 2**32 - 1, 2**32, 2**64 - 1]
    graph = network("SignalFilterBankSquareRoot", NoAttrs(), [(U64, (9,)), np.array(0, np.int32)])
    (roots,) = outputs(session(graph), np.array(values, np.uint64))
    assert roots.tolist() == [0, 1, 1, 2, 2, 3, 65535, 65536, 2**32 - 1]


def test_frames_overlap_and_are_not_valid_before_they_are_whole() -> None:
    opened = session(network("SignalFramer", FramerAttrs(3, 2), [(I16, (2,))]))
    made = [outputs(opened, np.array(x, np.int16)) for x in ([1, 2], [3, 4], [5, 6], [7, 8])]
    assert [bool(valid) for _, valid in made] == [False, True, True, True]
    assert [frame.tolist() for frame, _ in made[1:]] == [[[1, 2, 3]], [[3, 4, 5]], [[5, 6, 7]]]
    opened.reset()
    assert not outputs(opened, np.array([1, 2], np.int16))[1]


def test_frames_that_overlap_are_added() -> None:
    opened = session(network("SignalOverlapAdd", OverlapAddAttrs(2), [(I16, (1, 3))]))
    frames = ([1, 2, 3], [4, 5, 6], [7, 8, 9], [32767, 1, 2], [1, 0, 0])
    made = [outputs(opened, np.array([x], np.int16))[0].tolist() for x in frames]
    assert made == [[1, 2], [7, 5], [13, 8], [32767, 1], [3, 0]]


def test_the_first_frame_stands_for_those_before_it() -> None:
    opened = session(network("SignalStacker", StackerAttrs(1, 1, 1, 1), [(I16, (1,))]))
    made = [outputs(opened, np.array([x], np.int16)) for x in (5, 6, 7)]
    assert [bool(valid) for _, valid in made] == [False, True, True]
    assert [stack.tolist() for stack, _ in made[1:]] == [[5, 5, 6], [5, 6, 7]]


def test_state_has_the_sizes_of_the_inputs() -> None:
    graph = network("SignalDelay", DelayAttrs(2), [(I16, (1, 3))])
    graph.inputs[0].shape, graph.inputs[0].default_shape = (None, 3), (1, 3)
    graph.outputs[0].shape, graph.outputs[0].default_shape = (None, 3), (1, 3)
    opened = session(graph).resized({"x0": (2, 3)})
    x = np.arange(1, 7, dtype=np.int16).reshape(2, 3)
    assert outputs(opened, x)[0].tolist() == [[0, 0, 1], [0, 0, 4]]
    assert outputs(opened, x)[0].tolist() == [[2, 3, 1], [5, 6, 4]]


BROKEN = {
    "half of it a product": network("SignalRfft", FftAttrs(14), [(I16, (14,))]),
    "fft_length must be between": network("SignalRfft", FftAttrs(0), [(I16, (8,))]),
    "not be longer than": network("SignalRfft", FftAttrs(8), [(I16, (9,))]),
    "fft_length \\+ 2": network("SignalIrfft", FftAttrs(8), [(I16, (8,))]),
    "as many elements as a row": network("SignalWindow", WindowAttrs(1), [(I16, (3,)), WORDS]),
    "start_index to end_index": network("SignalEnergy", EnergyAttrs(0, 9), [(I16, (16,))]),
    "whole steps": network("SignalFramer", FramerAttrs(4, 3), [(I16, (4,))]),
    "larger than frame_size": network("SignalFramer", FramerAttrs(2, 4), [(I16, (4,))]),
    "no smaller than frame_step": network("SignalOverlapAdd", OverlapAddAttrs(4), [(I16, (1, 3))]),
    "a step must not exceed": network("SignalStacker", StackerAttrs(1, 0, 0, 2), [(I16, (1,))]),
    "needs 125 elements": network("SignalPCAN", PcanAttrs(1), [(U32, (2,)), (U32, (2,)), BITS]),
    "num_channels elements": network(
        "SignalFilterBankSpectralSubtraction", SUBTRACTION, [(U32, (5,))]
    ),
    "outside of the spectrum": network(
        "SignalFilterBank",
        FilterBankAttrs(1),
        [(U32, (4,)), WEIGHTS, WEIGHTS, *[np.array([0, 3], np.int16)] * 3],
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_does_not_fit_breaks_a_rule(message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(BROKEN[message])


def test_options_of_another_type_are_refused() -> None:
    decode = decode_custom("SignalRfft")
    assert decode is not None
    assert decode(b"") == FftAttrs(0)
    with pytest.raises(FormatError):
        decode(b"\x01\x02")
    with pytest.raises(FormatError, match="another type"):
        decode(flexbuffer_map({"fft_length": "eight"}))


def test_micro_speech_hears_its_features_whole() -> None:
    """30 ms of a rising tone, then of noise: features, scores. TFLite Micro gave these numbers."""
    preprocessor = Session(corpus("models/audio_preprocessor_int8.tflite"))
    time = np.arange(480 + 48 * 320)
    tone = np.round(8000 * np.sin(2e-6 * time * time)).astype(np.int16)
    frames = [tone[i * 320 : i * 320 + 480].reshape(1, 480) for i in range(49)]
    features = np.array([outputs(preprocessor, frame)[0] for frame in frames])
    assert features.sum(dtype=np.int64) == FEATURE_SUM
    assert features[5].tolist() == FEATURES_5
    words = Session(corpus("models/micro_speech_quantized.tflite"))
    assert outputs(words, features.reshape(1, -1))[0].tolist() == [SCORES]


FEATURE_SUM = -160321
FEATURES_5 = [
    63,
    -43,
    9,
    30,
    47,
    37,
    -29,
    -128,
    -128,
    -128,
    -128,
    -128,
    -128,
    -128,
    -128,
    -128,
    -26,
    31,
    25,
    -37,
    -23,
    -14,
    -3,
    2,
    -128,
    -128,
    -128,
    -128,
    -128,
    0,
    -12,
    -23,
    -7,
    -128,
    -128,
    11,
    22,
    21,
    30,
    -128,
]
SCORES = [-128, 127, -128, -128]
