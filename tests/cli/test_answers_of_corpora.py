"""Real networks, given real pictures and sounds and no options, answer what a person would."""

from __future__ import annotations

import pytest

from tests.answers_table import (
    BOXES,
    CIFAR,
    DIGITS,
    FACES,
    IMAGENET,
    MAPS,
    OBJECTS,
    PERSONS,
    POSES,
    answered,
    in_words,
    mapping,
    model_path,
)
from tests.corpora import corpus

NAMED = IMAGENET[:6]  # with labels packed into their files
UNNAMED = IMAGENET[6:]
GOOD = ("mobilenet_v1_0.75_192_quant", "mobilenet_v2_1.0_224_quant", "tf2_mobilenet_v2_1.0_224_ptq")

# Networks, a file, and words of which one begins the answer. Small networks err on some pictures,
# which `python -m tests.answers_table` shows and this table leaves out.
EXPECTED = (
    (DIGITS, "mnist_nine.bmp", ("9 ",)),
    (PERSONS, "person.bmp", ("person ",)),
    (PERSONS, "no_person.bmp", ("no person ",)),
    (PERSONS, "grace_hopper.bmp", ("person ",)),
    (PERSONS, "sunflower.bmp", ("no person ",)),
    (PERSONS, "missvickie_potato_chips.bmp", ("no person ",)),
    (PERSONS[:2], "squat.bmp", ("person ",)),
    (CIFAR, "cat.bmp", ("cat ",)),
    (CIFAR, "bird.bmp", ("bird ",)),
    (CIFAR, "bird_segmentation.bmp", ("bird ",)),
    (CIFAR, "parrot.jpg", ("bird ",)),
    (NAMED, "bird.bmp", ("chickadee ",)),
    (NAMED, "burger.jpg", ("cheeseburger ",)),
    (NAMED, "cat.bmp", ("Egyptian cat ", "tabby")),
    (NAMED, "parrot.jpg", ("macaw ",)),
    (NAMED, "sunflower.bmp", ("daisy ",)),
    (NAMED, "squat.bmp", ("dumbbell ", "barbell ")),
    (NAMED, "kite_and_cold.jpg", ("seashore", "sandbar")),
    (GOOD, "grace_hopper.bmp", ("military uniform ",)),
    (GOOD, "missvickie_potato_chips.bmp", ("packet ",)),
    (("automl_labeler_model",), "sunflower.bmp", ("sunflowers ",)),
    (OBJECTS, "bird.bmp", ("bird ",)),
    (OBJECTS, "bird_segmentation.bmp", ("bird ",)),
    (OBJECTS, "cat.bmp", ("cat ",)),
    (OBJECTS, "cats_and_dogs.jpg", ("cat ",)),
    (OBJECTS, "grace_hopper.bmp", ("person ",)),
    (OBJECTS, "kite_and_cold.jpg", ("person ",)),
    (OBJECTS, "burger.jpg", ("sandwich ",)),
    (OBJECTS, "parrot.jpg", ("bird ",)),
    (OBJECTS, "squat.bmp", ("person ",)),
    (BOXES, "grace_hopper.bmp", ("1 1.00",)),
    (BOXES, "sunflower.bmp", ("nothing",)),
    (FACES, "grace_hopper.bmp", ("face ",)),
    (FACES, "squat.bmp", ("face ",)),
    (FACES, "cat.bmp", ("nothing",)),
    (FACES, "burger.jpg", ("nothing",)),
    (POSES, "squat.bmp", ("1 person, 16 key points", "1 person, 17 key points")),
    (POSES, "burger.jpg", ("nobody",)),
    (POSES, "parrot.jpg", ("nobody",)),
    (MAPS, "bird_segmentation.bmp", ("background 79%, bird", "background 81%, bird")),
    (MAPS[:1], "cat.bmp", ("background 64%, cat",)),
    (MAPS[:1], "grace_hopper.bmp", ("person ",)),
    (MAPS[:1], "squat.bmp", ("background 83%, person",)),
    (("yamnet_audio_classifier",), "speech.wav", ("Speech ",)),
    (("yamnet_audio_classifier",), "silence_1000ms.wav", ("Silence ",)),
)
CASES = [(model, file, words) for models, file, words in EXPECTED for model in models]
MAPPED = {
    "conv_fc_mnist": "0..1 guessed",
    "mnist_lstm_float": "0..1 guessed",
    "vww_96_float": "0..1 guessed",
    "vww_96_int8": "0..1 implied",
    "resnet8_cifar10_float": "0..255 guessed",
    "resnet8_cifar10_int8": "0..255 implied",
    "mobilenet_v1_0.25_224_float": "-1..1 implied",
    "mobilenet_v2_nchw_origin_int8": "imagenet implied",
    "mobilenet_v1_0.25_224_quant": "-1..1 known",
    "face_detection_short_range": "-1..1 guessed",
    "deeplabv3_257_float": "-1..1 known",
    "mobilenet_v2_qdq_int8.onnx": "imagenet guessed",
    "fns_candy.onnx": "0..255 implied",
    "movenet_single_pose_lightning_ptq": "0..255 implied",
}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "file", "words"), CASES)
def test_the_answer_is_what_a_person_would_say(
    model: str, file: str, words: tuple[str, ...]
) -> None:
    corpus(model_path(model))
    said = in_words(answered(model, file))
    assert said.startswith(words), said


@pytest.mark.slow
@pytest.mark.parametrize(("model", "mapped"), MAPPED.items())
def test_the_mapping_is_told(model: str, mapped: str) -> None:
    corpus(model_path(model))
    file = "mnist_nine.bmp" if "mnist" in model else "grace_hopper.bmp"
    assert mapping(answered(model, file)) == mapped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "file", "labels", "words"),
    [
        *((m, "bird.bmp", "imagenet_labels.txt", "chickadee ") for m in (*NAMED, UNNAMED[0])),
        *((m, "parrot.jpg", "imagenet_labels.txt", "macaw ") for m in IMAGENET),
        *((m, "burger.jpg", "imagenet_labels.txt", "cheeseburger ") for m in IMAGENET),
        (OBJECTS[0], "cat.bmp", "coco_labels.txt", "cat "),
        (MAPS[0], "grace_hopper.bmp", "pascal_voc_segmentation_labels.txt", "person "),
        ("yamnet_audio_classifier", "speech.wav", "yamnet_521_labels.txt", "Speech "),
    ],
)
def test_files_of_labels_fit_their_networks(model: str, file: str, labels: str, words: str) -> None:
    path = corpus(f"data/{labels}")
    report = answered(model, file, path)
    assert in_words(report).startswith(words), in_words(report)
    assert not report.warnings


@pytest.mark.slow
def test_labels_of_another_network_are_told_of_with_both_counts() -> None:
    report = answered("conv_fc_mnist", "mnist_nine.bmp", corpus("data/coco_labels.txt"))
    assert in_words(report).startswith("9 ")
    (warning,) = report.warnings
    assert "90 labels do not fit 10 classes" in warning
