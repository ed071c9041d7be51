"""Trains the embedded sample: a small convolutional classifier of handwritten digits.

The data are scikit-learn's 1797 real 8x8 scans (UCI "Optical Recognition of Handwritten Digits",
test half); every fifth is held out. PyTorch trains the float network; the int8 one is quantised
here after training (per-channel symmetric weights, asymmetric activations, ranges from the
training images), then both are written as .circle with a few held-out images and the accuracy.

    pip install torch scikit-learn circlet && python tools/train_sample.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from circlet.formats import save
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.softmax import SoftmaxAttrs

SAMPLE = Path(__file__).parent.parent / "circlet" / "sample"
EPOCHS, BATCH, SEED = 60, 32, 7
SHOWN_IMAGES = 10
DEAD_WEIGHT = 1e-3  # channels whose weights decayed to nothing still need a scale


@dataclass(frozen=True)
class Layer:
    """One layer of the trained network in Circle's weight layout."""

    kind: str
    name: str
    weights: np.ndarray
    bias: np.ndarray
    stride: int = 1
    relu: bool = True

    @property
    def channel_axis(self) -> int:
        """The dimension of the weights that the output channels run along."""
        return 3 if self.kind == "DEPTHWISE_CONV_2D" else 0


class Digits(nn.Module):
    """3x3 convolution, depthwise-separable block with stride 2, 3x3 convolution, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 32, 1, stride=2)
        self.features = nn.Conv2d(32, 32, 3, padding=1)
        self.classifier = nn.Linear(4 * 4 * 32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [N, 10] of images [N, 1, 8, 8]."""
        x = torch.relu(self.conv(images))
        x = torch.relu(self.depthwise(x))
        x = torch.relu(self.pointwise(x))
        x = torch.relu(self.features(x))
        logits: torch.Tensor = self.classifier(x.permute(0, 2, 3, 1).flatten(1))
        return logits


def main() -> None:
    """Train, quantise, measure and write everything that the package ships."""
    images, labels, held_out = load_data()
    layers = train(images[~held_out], labels[~held_out])
    float_graph = float_network(layers)
    int8_graph = int8_network(layers, float_graph, images[~held_out])
    report: dict[str, object] = {"data": "scikit-learn digits, every fifth image held out"}
    for name, graph in (("float", float_graph), ("int8", int8_graph)):
        answers = [int(probabilities(graph, image).argmax()) for image in images[held_out]]
        report[f"{name}_accuracy"] = round(float(np.mean(answers == labels[held_out])), 4)
        save(Model([graph], description=f"digits, {name}"), SAMPLE / f"digits_{name}.circle")
    report["held_out_images"] = int(held_out.sum())
    shown = np.flatnonzero(held_out)[:SHOWN_IMAGES]
    scores = np.concatenate([probabilities(int8_graph, image) for image in images[shown]])
    arrays = {"images": images[shown], "labels": labels[shown], "int8_scores": scores}
    np.savez_compressed(SAMPLE / "digits.npz", **arrays)
    (SAMPLE / "labels.txt").write_text("\n".join(str(digit) for digit in range(10)) + "\n")
    (SAMPLE / "accuracy.json").write_text(json.dumps(report, indent=2) + "\n")


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images [N, 8, 8, 1] float32 in 0..1, labels [N], and which images are held out."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    held_out = np.arange(len(images)) % 5 == 0
    return images, digits.target, held_out


def train(images: np.ndarray, labels: np.ndarray) -> list[Layer]:
    """The layers of a network trained on the images."""
    torch.manual_seed(SEED)
    net = Digits()
    optimiser = torch.optim.Adam(net.parameters(), 2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2)
    targets = torch.from_numpy(labels)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[chosen]), targets[chosen]).backward()
            optimiser.step()
        schedule.step()
    return exported(net)


def exported(net: Digits) -> list[Layer]:
    """The trained weights in Circle's layouts: OHWI, 1HWC for depthwise, OI."""
    arrays = {name: value.detach().numpy() for name, value in net.named_parameters()}

    def layer(kind: str, name: str, order: tuple[int, ...], **options: int) -> Layer:
        weights = np.ascontiguousarray(arrays[f"{name}.weight"].transpose(order))
        relu = bool(options.pop("relu", 1))
        return Layer(kind, name, weights, arrays[f"{name}.bias"], relu=relu, **options)

    return [
        layer("CONV_2D", "conv", (0, 2, 3, 1)),
        layer("DEPTHWISE_CONV_2D", "depthwise", (1, 2, 3, 0)),
        layer("CONV_2D", "pointwise", (0, 2, 3, 1), stride=2),
        layer("CONV_2D", "features", (0, 2, 3, 1)),
        layer("FULLY_CONNECTED", "classifier", (0, 1), relu=0),
    ]


def attributes(layer: Layer) -> object:
    """The operator attributes of a layer."""
    activation = "RELU" if layer.relu else "NONE"
    stride = layer.stride
    if layer.kind == "CONV_2D":
        return Conv2DAttrs(SAME_UPPER, (stride, stride), activation=activation)
    if layer.kind == "DEPTHWISE_CONV_2D":
        return DepthwiseConv2DAttrs(
            SAME_UPPER, (stride, stride), depth_multiplier=1, activation=activation
        )
    return FullyConnectedAttrs(activation=activation)


AddConstants = Callable[[Builder, Layer, Tensor], tuple[Tensor, Tensor]]


def network(
    layers: Sequence[Layer],
    image: Callable[[Builder], Tensor],
    constants: AddConstants,
    quant: dict[str, Quantization],
) -> Graph:
    """Image in, ten probabilities out; the same topology for both types."""
    b = builder("digits")
    x = image(b)
    for layer in layers:
        if layer.kind == "FULLY_CONNECTED":
            shape = b.constant("shape", np.array([1, layer.weights.shape[1]], np.int32))
            flat = ReshapeAttrs()
            x = b.op("RESHAPE", [x, shape], flat, name="flatten", quant=x.quant)
        weights, bias = constants(b, layer, x)
        operands = [x, weights, bias]
        x = b.op(
            layer.kind, operands, attributes(layer), name=layer.name, quant=quant.get(layer.name)
        )
    x = b.op(
        "SOFTMAX", [x], SoftmaxAttrs(1.0), name="probabilities", quant=quant.get("probabilities")
    )
    return b.output(x).build()


def float_network(layers: Sequence[Layer]) -> Graph:
    """The float32 graph."""

    def constants(b: Builder, layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = b.constant(f"{layer.name}/weights", layer.weights)
        return weights, b.constant(f"{layer.name}/bias", layer.bias)

    def image(b: Builder) -> Tensor:
        return b.input("image", DType.FLOAT32, (1, 8, 8, 1))

    return network(layers, image, constants, {})


def int8_network(layers: Sequence[Layer], float_graph: Graph, images: np.ndarray) -> Graph:
    """The int8 graph: image, weights and activations int8, bias int32."""
    quant = activation_ranges(float_graph, images)

    def constants(b: Builder, layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
        assert x.quant is not None
        axis = layer.channel_axis
        others = tuple(i for i in range(layer.weights.ndim) if i != axis)
        largest = np.abs(layer.weights).max(axis=others)
        if layer.kind == "FULLY_CONNECTED":
            largest = largest.max(keepdims=True)
        scale = (np.maximum(largest, DEAD_WEIGHT) / 127).astype(np.float32)
        weight_quant = Quantization.per_channel(scale, axis)
        along = [1] * layer.weights.ndim
        along[axis] = -1
        steps = np.rint(layer.weights / scale.reshape(along)).clip(-127, 127).astype(np.int8)
        bias_scale = scale * x.quant.scale[0]
        bias = np.rint(layer.bias / bias_scale).astype(np.int32)
        return (
            b.constant(f"{layer.name}/weights", steps, weight_quant),
            b.constant(f"{layer.name}/bias", bias, Quantization.per_channel(bias_scale, 0)),
        )

    def image(b: Builder) -> Tensor:
        return b.input("image", DType.INT8, (1, 8, 8, 1), quant["image"])

    return network(layers, image, constants, quant)


def activation_ranges(graph: Graph, images: np.ndarray) -> dict[str, Quantization]:
    """Scale and zero point of every float activation, from its range over the images."""
    seen: dict[str, tuple[float, float]] = {"image": (0.0, 1.0)}
    probes = Graph("probes", graph.inputs, [op.outputs[0] for op in graph.ops], graph.ops)
    for image in images[:300]:
        for tensor, value in zip(
            probes.outputs, evaluate_graph(probes, [image[None]]), strict=True
        ):
            low, high = seen.get(tensor.name, (0.0, 0.0))
            seen[tensor.name] = (min(low, float(value.min())), max(high, float(value.max())))
    quant = {name: affine(low, high) for name, (low, high) in seen.items()}
    return {**quant, "probabilities": Quantization.per_tensor(1 / 256, -128)}


def affine(low: float, high: float) -> Quantization:
    """int8 parameters that cover low..high and hold zero exactly."""
    scale = max(high - low, 1e-6) / 255
    return Quantization.per_tensor(scale, round(-128 - low / scale))


def probabilities(graph: Graph, image: np.ndarray) -> np.ndarray:
    """The network's answer [1, 10], by the reference semantics."""
    quant = graph.inputs[0].quant
    if quant is not None:
        steps = np.rint(image / quant.scale[0]) + quant.zero_point[0]
        image = steps.clip(-128, 127).astype(np.int8)
    return evaluate_graph(graph, [image[None]])[0]


if __name__ == "__main__":
    main()
