"""Small Llama-like decoders as exporters write them to .onnx, with random weights.

Each layer is SimplifiedLayerNormalization, one product for queries, keys and values,
GroupQueryAttention over a cache with rotary embedding, and a gated layer of SiLU; sums and
normalisations are SkipSimplifiedLayerNormalization. Products are MatMulNBits of 4 or 8 bits, or
MatMul of floats. Inputs are `input_ids`, `attention_mask` and the caches; outputs are `logits` and
the caches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

_MICROSOFT = "com.microsoft"
_CONTRIBUTED = {"GroupQueryAttention", "MatMulNBits", "SkipSimplifiedLayerNormalization"}
_KINDS = ("key", "value")
_EPSILON, _BASE = 1e-6, 10000.0


@dataclass(frozen=True)
class Decoder:
    """A decoder's sizes, and the form of its weights.

    Attributes:
        layers: How many.
        hidden: Columns between layers.
        heads: Of queries; `groups` those of keys and values.
        inner: Columns inside the gated layer.
        words: Of the vocabulary.
        places: Rows of the tables of angles: the longest text.
        bits: 4 or 8 of a weight, or 32 for floats.
        block: Inputs that share a scale.
        zeros: Whether each block has a zero point of its own.
        accuracy: The `accuracy_level` of products: 0, or 4 for inputs rounded to 8 bits.
    """

    layers: int = 8
    hidden: int = 1024
    heads: int = 16
    groups: int = 4
    inner: int = 2816
    words: int = 8192
    places: int = 2048
    bits: int = 4
    block: int = 32
    zeros: bool = False
    accuracy: int = 0

    @property
    def size(self) -> int:
        """Columns of a head."""
        return self.hidden // self.heads

    @property
    def products(self) -> list[tuple[int, int]]:
        """Outputs and inputs of every product of weights of a token."""
        packed = (self.heads + 2 * self.groups) * self.size
        layer = [(packed, self.hidden), (self.hidden, self.hidden)]
        layer += [(self.inner, self.hidden)] * 2 + [(self.hidden, self.inner)]
        return layer * self.layers + [(self.words, self.hidden)]

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, scales and zero points that a token needs, as the file has them."""
        return sum(self._bytes_of(*product) for product in self.products)

    def _bytes_of(self, units: int, depth: int) -> int:
        if self.bits == 32:
            return units * depth * 4
        blocks = ceil(depth / self.block)
        zeros = ceil(blocks * self.bits / 8) if self.zeros else 0
        return units * (blocks * self.block * self.bits // 8 + blocks * 4 + zeros)

    def cache_bytes(self, held: int) -> int:
        """Bytes of keys and values that a token reads behind so many others."""
        return 2 * self.layers * self.groups * self.size * held * 4

    def named(self) -> str:
        """What its weights are, in words."""
        if self.bits == 32:
            return "float"
        zeros = ", zero points" if self.zeros else ""
        return f"int{self.bits}, blocks of {self.block}{zeros}, accuracy {self.accuracy}"


TINY = Decoder(layers=2, hidden=64, heads=4, groups=2, inner=96, words=48, places=40)


def tiny(**changes: Any) -> Decoder:
    """A decoder for tests, of other forms or sizes."""
    return replace(TINY, **changes)


def feeds(
    decoder: Decoder, rows: int, held: int, length: int, *, seed: int = 0, fill: bool = True
) -> dict[str, np.ndarray]:
    """Inputs for `rows` words behind `held` others, in caches of `length` rows.

    Args:
        seed: Of the words, and of what the caches hold.
        fill: Whether the caches hold something; else they are zeros.
    """
    random = np.random.default_rng(seed)
    mask = np.zeros((1, length), np.int64)
    mask[:, : held + rows] = 1
    given = {"input_ids": random.integers(0, decoder.words, (1, rows)), "attention_mask": mask}
    shape = (1, decoder.groups, length, decoder.size)
    for name in cache_names(decoder):
        given[name] = np.zeros(shape, np.float32)
        if fill:
            given[name][:, :, :held] = random.standard_normal((*shape[:2], held, shape[3]))
    return given


def cache_names(decoder: Decoder) -> list[str]:
    """Names of the inputs that are caches; outputs have `present` for `past_key_values`."""
    return [f"past_key_values.{n}.{kind}" for n in range(decoder.layers) for kind in _KINDS]


def model_bytes(decoder: Decoder, seed: int = 0) -> bytes:
    """The .onnx file; needs the package `onnx`."""
    return bytes(_Writer(decoder, seed).model().SerializeToString())


class _Writer:
    """Collects nodes and constants of one decoder."""

    def __init__(self, decoder: Decoder, seed: int) -> None:
        self._decoder = decoder
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:
        """The whole file as a message."""
        from onnx import TensorProto, helper

        d, shape = self._decoder, ["batch", self._decoder.groups, "past", self._decoder.size]
        self._counts()
        self._angles()
        last = self._body()
        self._product(last, "logits", d.words, d.hidden)
        integers, real = TensorProto.INT64, TensorProto.FLOAT
        made = helper.make_tensor_value_info
        inputs = [
            made("input_ids", integers, ["batch", "rows"]),
            made("attention_mask", integers, ["batch", "total"]),
        ]
        outputs = [made("logits", real, ["batch", "rows", d.words])]
        for name in cache_names(d):
            inputs.append(made(name, real, shape))
            outputs.append(made(_present(name), real, ["batch", d.groups, "length", d.size]))
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._constants)
        sets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)

    def _node(self, kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        domain = _MICROSOFT if kind in _CONTRIBUTED else ""
        made = helper.make_node(
            kind, inputs, outputs, name=f"{outputs[0]}/{kind}", domain=domain, **attributes
        )
        self._nodes.append(made)
        return outputs[0]

    def _constant(self, name: str, values: np.ndarray) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(values, name))
        return name

    def _counts(self) -> None:
        """How many words of a text are there: `lengths` less 1, and the greatest length."""
        one = self._constant("one", np.array([1], np.int64))
        self._node("ReduceSum", ["attention_mask", one], ["words"], keepdims=1)
        self._node("Sub", ["words", one], ["words_before"])
        self._node("Cast", ["words_before"], ["lengths"], to=6)
        self._node("Shape", ["attention_mask"], ["mask_sizes"])
        index = self._constant("length_axis", np.array(1, np.int64))
        self._node("Gather", ["mask_sizes", index], ["mask_length"])
        self._node("Cast", ["mask_length"], ["total"], to=6)

    def _angles(self) -> None:
        pairs = self._decoder.size // 2
        turns = _BASE ** -(np.arange(pairs) / pairs)
        angles = np.arange(self._decoder.places)[:, None] * turns
        self._constant("cosines", np.cos(angles).astype(np.float32))
        self._constant("sines", np.sin(angles).astype(np.float32))

    def _body(self) -> str:
        """All layers; the normalised result of the last."""
        d = self._decoder
        table = self._random.standard_normal((d.words, d.hidden)).astype(np.float32)
        rest = self._node("Gather", [self._constant("embedding", table), "input_ids"], ["rows_0"])
        x = self._node(
            "SimplifiedLayerNormalization",
            [rest, self._gains("norm_0")],
            ["x_0"],
            axis=-1,
            epsilon=_EPSILON,
        )
        for n in range(d.layers):
            x, rest = self._added(f"layer_{n}.middle", rest, self._attention(n, x))
            x, rest = self._added(f"layer_{n}.end", rest, self._gated(n, x))
        return x

    def _added(self, name: str, rest: str, x: str) -> tuple[str, str]:
        """The sum of what goes past a layer and what comes out of it, normalised, and as it is."""
        outputs = [f"{name}.normed", "", "", f"{name}.sum"]
        given = [rest, x, self._gains(f"{name}.norm")]
        self._node("SkipSimplifiedLayerNormalization", given, outputs, epsilon=_EPSILON)
        return outputs[0], outputs[3]

    def _attention(self, n: int, x: str) -> str:
        d, name = self._decoder, f"layer_{n}"
        packed = (d.heads + 2 * d.groups) * d.size
        self._product(x, f"{name}.qkv", packed, d.hidden)
        past = [f"past_key_values.{n}.{kind}" for kind in _KINDS]
        self._node(
            "GroupQueryAttention",
            [f"{name}.qkv", "", "", *past, "lengths", "total", "cosines", "sines"],
            [f"{name}.seen", *map(_present, past)],
            num_heads=d.heads,
            kv_num_heads=d.groups,
            do_rotary=1,
        )
        return self._product(f"{name}.seen", f"{name}.mixed", d.hidden, d.hidden)

    def _gated(self, n: int, x: str) -> str:
        d, name = self._decoder, f"layer_{n}"
        gate = self._product(x, f"{name}.gate", d.inner, d.hidden)
        up = self._product(x, f"{name}.up", d.inner, d.hidden)
        share = self._node("Sigmoid", [gate], [f"{name}.share"])
        silu = self._node("Mul", [gate, share], [f"{name}.silu"])
        both = self._node("Mul", [silu, up], [f"{name}.both"])
        return self._product(both, f"{name}.down", d.hidden, d.inner)

    def _gains(self, name: str) -> str:
        gains = self._random.uniform(0.5, 1.5, self._decoder.hidden)
        return self._constant(name, gains.astype(np.float32))

    def _product(self, x: str, result: str, units: int, depth: int) -> str:
        """`result` = `x` times weights [units, depth] of about 1 / sqrt(depth)."""
        d = self._decoder
        if d.bits == 32:
            weights = self._random.standard_normal((depth, units), np.float32)
            stored = self._constant(f"{result}.weight", weights / np.float32(depth**0.5))
            return self._node("MatMul", [x, stored], [result])
        blocks, middle = ceil(depth / d.block), 1 << (d.bits - 1)
        shape = (units, blocks, d.block * d.bits // 8)
        scales = self._random.uniform(0.5, 1.5, units * blocks) / (middle * depth**0.5)
        inputs = [
            x,
            self._constant(f"{result}.weight", self._random.integers(0, 256, shape, np.uint8)),
            self._constant(f"{result}.scales", scales.astype(np.float32)),
        ]
        if d.zeros:
            inputs.append(self._constant(f"{result}.zeros", self._zeros(units, blocks)))
        attributes = {"K": depth, "N": units, "bits": d.bits, "block_size": d.block}
        return self._node("MatMulNBits", inputs, [result], accuracy_level=d.accuracy, **attributes)

    def _zeros(self, units: int, blocks: int) -> np.ndarray:
        """Zero points near the middle."""
        d = self._decoder
        middle = 1 << (d.bits - 1)
        points = self._random.integers(middle - 2, middle + 3, (units, blocks), np.uint8)
        if d.bits == 8:
            return points.reshape(-1)
        padded = np.pad(points, ((0, 0), (0, blocks % 2)))
        return (padded[:, ::2] | padded[:, 1::2] << 4).reshape(-1).astype(np.uint8)


def _present(name: str) -> str:
    return name.replace("past_key_values", "present")
