"""The networks that every target must run, one for each family of kernels."""

from __future__ import annotations

from pathlib import Path

from circlet.sample import Sample
from tests.corpora import corpus

# What it exercises -> the file in the public corpus.
CORPUS = {
    "int8 convolutions": "person_detect.tflite",
    "uint8 mobilenet": "mobilenet_v1_0.25_128_quant.tflite",
    "float convolutions": "resnet8_cifar10_float.tflite",
    "hybrid": "kws_dscnn_hybrid.tflite",
    "hybrid matrices": "toycar_ae_hybrid.tflite",
    "float lstm": "mnist_lstm_float.tflite",
    "int8 lstm": "mnist_lstm_int8.tflite",
    "svdf": "keyword_scrambled_svdf_int8.tflite",
    "int16 activations": "static_w8_a16_q_einsum.tflite",
}
EMBEDDED = {"float sample": "float", "int8 sample": "int8"}
NETWORKS = (*EMBEDDED, *CORPUS)


def model_path(network: str) -> Path:
    """The file of a network; skips the test where it is absent."""
    if network in EMBEDDED:
        return Sample(EMBEDDED[network]).model_path
    return corpus(f"models/{CORPUS[network]}")
