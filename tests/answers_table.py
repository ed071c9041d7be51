"""What `circlet run MODEL --input FILE` answers for the pictures and sounds of the corpora.

    python -m tests.answers_table

prints one line for each: the network, the file, the answer, and how pictures were mapped.
"""

from __future__ import annotations

import sys
from pathlib import Path

from circlet.commands.run import RunReport, RunRequest, run_network
from tests.corpora import ROOT

IMAGENET = (
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_0.25_224_quant",
    "mobilenet_v1_0.5_160_quant",
    "mobilenet_v1_0.75_192_quant",
    "mobilenet_v2_1.0_224_quant",
    "tf2_mobilenet_v2_1.0_224_ptq",
    "mobilenet_v1_0.25_224_float",
    "mobilenet_v2_nchw_origin_int8",
)
DIGITS = (
    "conv_fc_mnist",
    "conv_fc_mnist_a8w8",
    "mnist_weight_only_dequant",
    "partly_quantized_mnist",
    "mnist_lstm_float",
    "mnist_lstm_int8",
    "keras_lstm_mnist_ptq",
    "mnist-8.onnx",
)
PERSONS = ("vww_96_float", "vww_96_int8", "person_detect")
CIFAR = ("resnet8_cifar10_float", "resnet8_cifar10_int8")
POSES = ("movenet_single_pose_lightning_ptq", "posenet_mobilenet_v1_075_353_481_quant")
MAPS = ("deeplabv3_257_float", "deeplabv3_mnv2_dm05_pascal_quant")
OBJECTS = ("coco_ssd_mobilenet_v1_1.0_quant",)
FACES = ("face_detection_short_range", "yunet_n_320.onnx", "yunet_s_dynamic.onnx")
BOXES = ("ultraface_rfb_320.onnx",)
PHOTOS = (
    *("bird.bmp", "bird_segmentation.bmp", "burger.jpg", "cat.bmp", "cats_and_dogs.jpg"),
    *("grace_hopper.bmp", "kite_and_cold.jpg", "missvickie_potato_chips.bmp", "parrot.jpg"),
    *("squat.bmp", "sunflower.bmp"),
)
GREY = ("person.bmp", "no_person.bmp")
PAIRS = (
    *((model, file) for model in IMAGENET for file in PHOTOS),
    *((model, "mnist_nine.bmp") for model in DIGITS),
    *((model, file) for model in PERSONS for file in (*GREY, *PHOTOS)),
    *((model, file) for model in CIFAR for file in PHOTOS),
    *((model, file) for model in (*OBJECTS, *FACES, *POSES, *MAPS) for file in PHOTOS),
    ("mobilenet_v2_qdq_int8.onnx", "grace_hopper.bmp"),
    ("SqueezeNet_fp16.onnx", "grace_hopper.bmp"),
    *((model, file) for model in BOXES for file in PHOTOS),
    ("automl_labeler_model", "sunflower.bmp"),
    ("yamnet_audio_classifier", "speech.wav"),
    ("yamnet_audio_classifier", "silence_1000ms.wav"),
    ("yamnet_audio_classifier", "yes_1000ms.wav"),
    ("yamnet_audio_classifier", "no_1000ms.wav"),
)


def model_path(model: str) -> str:
    """A network's file in the corpora; names without an ending are those of .tflite files."""
    return f"models/{model}" if model.endswith(".onnx") else f"models/{model}.tflite"


def answered(model: str, file: str, labels: Path | None = None) -> RunReport:
    """What the command reports, without any option but `labels`."""
    path = ROOT / model_path(model)
    return run_network(RunRequest(path, (ROOT / "data" / file,), labels))


def in_words(report: RunReport) -> str:
    """An answer in one line."""
    if report.kind == "pose":
        sure = sum(point.score > 0.3 for pose in report.poses for point in pose.points)
        return f"{len(report.poses)} person, {sure} key points" if report.poses else "nobody"
    if report.kind:
        found = [f"{item.label or item.index} {item.score:.2f}" for item in report.detections]
        return ", ".join(found) or "nothing"
    item = report.answers[0]
    shares = [f"{part.label or part.index} {part.share:.0%}" for part in item.shares]
    best = [f"{top.label or top.index} {top.score:.2f}" for top in item.top[:2]]
    return ", ".join(shares or best)


def mapping(report: RunReport) -> str:
    """How the picture was mapped."""
    return ", ".join(f"{m.range} {m.certainty}" for m in report.pixels if m is not None)


def main() -> None:
    """Print the table."""
    for model, file in PAIRS:
        report = answered(model, file)
        sys.stdout.write(f"{model:50} {file:28} {in_words(report):60} {mapping(report)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
