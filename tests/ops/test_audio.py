"""AudioSpectrogram and Mfcc, beside LiteRT's kernels and numbers worked out from the definition."""

from __future__ import annotations

from math import cos, log, log1p, pi, sqrt

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.ir import DType, Graph
from circlet.ops.audio import MfccAttrs, SpectrogramAttrs
from circlet.ops.verify import verify
from tests.ops.custom_op import network, outputs, session
from tests.ops.one_op import peer_result

F32, I32 = DType.FLOAT32, DType.INT32
RATE = np.array([16000], np.int32)


def spectrogram(size: int, stride: int, squared: bool, shape: tuple[int, ...]) -> Graph:
    return network("AudioSpectrogram", SpectrogramAttrs(size, stride, squared), [(F32, shape)])


def mfcc(attrs: MfccAttrs, shape: tuple[int, ...]) -> Graph:
    return network("Mfcc", attrs, [(F32, shape), RATE])


NETWORKS = {
    "energies": spectrogram(480, 320, True, (1600, 2)),
    "sizes": spectrogram(100, 7, False, (321, 1)),
    "exact-window": spectrogram(64, 64, True, (64, 3)),
    "speech": mfcc(MfccAttrs(4000.0, 20.0, 40, 10), (1, 5, 257)),
    "wide": mfcc(MfccAttrs(8000.0, 125.0, 64, 64), (2, 3, 513)),
    "coarse": mfcc(MfccAttrs(7000.0, 0.0, 40, 13), (1, 2, 33)),
    "beyond": mfcc(MfccAttrs(9000.0, 20.0, 20, 5), (1, 2, 129)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_litert(name: str) -> None:
    graph = NETWORKS[name]
    x = np.random.default_rng(0).normal(size=graph.inputs[0].static_shape).astype(np.float32)
    x = x * x if name in ("speech", "wide", "coarse", "beyond") else x
    (op,) = graph.ops
    (found,) = outputs(session(graph), x)
    np.testing.assert_allclose(found, peer_result(op, [x]), rtol=1e-5, atol=1e-5)


def test_a_sound_shorter_than_a_window_has_no_frame() -> None:
    (found,) = outputs(session(spectrogram(8, 4, True, (7, 1))), np.ones((7, 1), np.float32))
    assert found.shape == (1, 0, 5)


def test_energies_are_those_of_the_definition() -> None:
    x = np.array([1, -2, 3, 0.5], np.float32)
    (found,) = outputs(session(spectrogram(4, 4, True, (4, 1))), x[:, None])
    seen = x * [0, 0.5, 1, 0.5]
    terms = [[seen[n] * np.exp(-2j * pi * k * n / 4) for n in range(4)] for k in range(3)]
    np.testing.assert_allclose(found[0, 0], [abs(sum(term)) ** 2 for term in terms], rtol=1e-6)


def test_a_lone_bin_gives_the_cosines_of_its_bands() -> None:
    attrs = MfccAttrs(4000.0, 0.0, 2, 2)
    energies = np.zeros((1, 1, 9), np.float32)
    energies[0, 0, 2] = 16  # 2 of 8 steps of 1000 Hz, and the root is 4
    (found,) = outputs(session(mfcc(attrs, (1, 1, 9))), energies)
    top, at = 1127 * log1p(4000 / 700), 1127 * log1p(2000 / 700)
    part = (top - at) / (top / 3)  # between the second centre and the upper limit
    assert 0 < part < 1
    logs = [log(1e-12), log(4 * part)]
    wanted = [
        sum(value * cos(i * pi / 2 * (j + 0.5)) for j, value in enumerate(logs)) * sqrt(2 / 2)
        for i in range(2)
    ]
    np.testing.assert_allclose(found[0, 0], wanted, rtol=1e-5)


BROKEN = {
    "window_size must be": spectrogram(1, 1, True, (4, 1)),
    "sound must have 2": spectrogram(4, 1, True, (4, 1)),
    "more coefficients than bands": mfcc(MfccAttrs(4000.0, 20.0, 4, 5), (1, 1, 9)),
    "between two frequencies": mfcc(MfccAttrs(20.0, 20.0), (1, 1, 129)),
    "2 bins or more": mfcc(MfccAttrs(), (1, 1, 1)),
}
BROKEN["sound must have 2"].inputs[0].shape = (4,)


@pytest.mark.parametrize("message", BROKEN)
def test_what_does_not_fit_breaks_a_rule(message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(BROKEN[message])


def test_a_rate_that_is_not_positive_is_refused_when_it_is_known() -> None:
    graph = network("Mfcc", MfccAttrs(), [(F32, (1, 1, 129)), (I32, (1,))])
    with pytest.raises(GraphError, match="must be positive"):
        outputs(session(graph), np.ones((1, 1, 129), np.float32), np.zeros(1, np.int32))
