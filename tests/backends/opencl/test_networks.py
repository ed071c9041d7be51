"""Public networks on the device, against the answers of LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from tests import corpora
from tests.backends.opencl.running import device

pytestmark = pytest.mark.usefixtures("device")
__all__ = ["device"]

QUICK = ("hello_world_float.tflite", "hello_world_int8.tflite", "conv_fc_mnist.tflite")
SLOW = (
    "face_detection_short_range.tflite",
    "kws_dscnn_int8.tflite",
    "resnet8_cifar10_float.tflite",
)
MORE = (
    "SqueezeNet_fp16.onnx",
    "ad01_fp32.tflite",
    "ad01_int8.tflite",
    "cct_2_32_32_128.onnx",
    "conv_fc_mnist_a8w8.tflite",
    "deeplabv3_257_float.tflite",
    "dilated_conv.tflite",
    "mnist-8.onnx",
    "mobilenet_v1_0.25_128_quant.tflite",
    "mobilenet_v1_0.25_224_float.tflite",
    "mobilenet_v1_0.25_224_quant.tflite",
    "mobilenet_v2_0.35_128.onnx",
    "mobilenet_v2_1.0_224_quant.tflite",
    "person_detect.tflite",
    "planestrike_tf.tflite",
    "resnet8_cifar10_int8.tflite",
    "rope.tflite",
    "sdpa_composite.tflite",
    "str_ww_ref_model.tflite",
    "style_transfer_f16_384.tflite",
    "super_resolution_10.onnx",
    "torchaudio_conformer.tflite",
    "ultraface_rfb_320.onnx",
    "vww_96_float.tflite",
    "vww_96_int8.tflite",
    "yunet_n_320.onnx",
)
TOLERANCE = 2e-5  # of an output's largest value


def _check(name: str) -> None:
    golden = np.load(corpora.corpus(f"golden/{name}.npz"))
    case = min(key.split("/")[0] for key in golden.files if "/in/" in key)
    session = Session(corpora.corpus(f"models/{name}"), backends=("opencl",), cache=False)
    assert {row["backend"] for row in session.placement} == {"opencl"}
    given = [golden[f"{case}/in/{index}"] for index in range(len(session.inputs))]
    for index, got in enumerate(session.run(given).values()):
        wanted = golden[f"{case}/out/{index}"]
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(got, wanted)
            continue
        size = float(np.abs(wanted).max(initial=1.0))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=TOLERANCE * size)


@pytest.mark.parametrize("name", QUICK)
def test_small_networks_run_wholly_on_the_device(name: str) -> None:
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_networks_run_wholly_on_the_device(name: str) -> None:
    _check(name)


@pytest.mark.release
@pytest.mark.parametrize("name", MORE)
def test_more_networks_run_wholly_on_the_device(name: str) -> None:
    _check(name)
