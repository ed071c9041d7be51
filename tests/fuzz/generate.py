"""Networks of sound operators in odd company: what fusion, planning and code generation meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from random import Random

import numpy as np

from circlet.errors import CircletError
from circlet.formats import dumps
from circlet.ir import DType, Op, Origin, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops import OpDef, all_records
from circlet.ops.build import builder, default_attrs
from circlet.ops.verify import op_violations
from tests.fuzz import values
from tests.fuzz.mutate_attrs import change_attribute
from tests.windows import conv2d_attrs, depthwise_attrs, pool_attrs

Operands = list[Tensor | None]
_TRIES = 60
_RECORDS = [r for r in all_records() if ":" not in r.kind and r.kind not in ("IF", "WHILE")]
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
_QUANTISED = (DType.INT8, DType.UINT8, DType.INT16)


def generate(random: Random) -> bytes:
    """A network of a few operators; all that nothing reads are outputs."""
    return dumps(_Network(random).build().model(), "tflite")


class _Network:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.b: Builder = builder()
        self.dtype = random.choice((DType.FLOAT32, DType.FLOAT32, DType.INT8, DType.UINT8))
        self.live: list[Tensor] = []
        for index in range(random.choice((1, 1, 2))):
            shape = self._shape(random.choice((1, 2, 3, 4, 4, 4)))
            self.live.append(self.b.input(f"x{index}", self.dtype, shape, self._quant(self.dtype)))

    def build(self) -> Builder:
        wanted = self.random.choice((1, 2, 3, 5, 8))
        for _ in range(_TRIES):
            if len(self.b.graph.ops) >= wanted:
                break
            self._try()
        read = {tensor for op in self.b.graph.ops for tensor in op.inputs}
        return self.b.output(*[t for t in self.live if t not in read] or self.live[-1:])

    def _try(self) -> None:
        """Append an op of a random kind if its rules let it be."""
        weighted = self.random.random() < 0.4
        kind, operands, attrs = self._weighted() if weighted else self._any()
        origin = Origin.of(len(self.b.graph.ops), f"op{len(self.b.graph.ops)}")
        dtype = _result(kind, operands)
        made = Tensor(f"t{len(self.live)}", dtype, (), self._quant(dtype), has_rank=False)
        op = Op(kind, operands, [made], attrs, origin)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            change_attribute(op, self.random)
        try:
            if any(op_violations(op, self.b.graph)):
                return
            (inferred,) = _record(kind).infer(op)
        except (CircletError, ValueError):
            return
        if None in inferred.shape or prod(size or 0 for size in inferred.shape) > 1 << 14:
            return
        made.dtype, made.shape, made.has_rank = inferred.dtype, inferred.shape, True
        for tensor in (*operands, made):
            if tensor is not None:
                self.b.graph.add_tensor(tensor)
        self.b.graph.ops.append(op)
        self.live.append(made)

    def _any(self) -> tuple[str, Operands, object]:
        """A kind with operands of one of its forms."""
        record = self.random.choice(_RECORDS)
        words = self.random.choice(record.dtypes).partition("->")[0].split()
        operands: Operands = [self._operand(word) for word in words]
        if self.random.random() < 0.2 and operands and operands[0] is not None:
            operands = [operands[0]] * len(operands)
        try:
            return record.kind, operands, default_attrs(record.kind)
        except CircletError:
            return "RELU", [self.live[-1]], default_attrs("RELU")

    def _operand(self, word: str) -> Tensor | None:
        """A tensor that is there, mostly, or a new constant."""
        if word == "_":
            return None
        fitting = [t for t in self.live if word in ("*", t.dtype.name)]
        if fitting and self.random.random() < 0.75:
            return self.random.choice(fitting[-3:])
        dtype = self.dtype if word == "*" else DType[word]
        if not dtype.has_numpy:
            return None
        near = self.random.choice(self.live).shape
        shape = self.random.choice((near, near[-1:], (1,), (), (len(near),), self._shape(2)))
        sizes = tuple(size or 1 for size in shape)
        data = values.array(dtype, sizes, self.random) if dtype.bits > 16 else self._data(sizes)
        return replace(self._constant(data.astype(dtype.numpy)), quant=self._quant(dtype))

    def _weighted(self) -> tuple[str, Operands, object]:
        """A layer with weights, or pooling, over the newest tensor."""
        data = self.live[-1] if self.random.random() < 0.8 else self.random.choice(self.live)
        choices: tuple[Callable[[Tensor], tuple[str, Operands, object]], ...]
        choices = (self._convolution, self._depthwise, self._dense, self._pooling)
        return self.random.choice(choices)(data)

    def _convolution(self, data: Tensor) -> tuple[str, Operands, object]:
        depth, filters = _last(data), self.random.choice(_SIZES)
        kernel = self._kernel()
        attrs = conv2d_attrs(self._padding(), *self._strides(), self._activation())
        return "CONV_2D", self._layer(data, (filters, *kernel, depth), filters, 0), attrs

    def _depthwise(self, data: Tensor) -> tuple[str, Operands, object]:
        depth, times = _last(data), self.random.choice((1, 1, 1, 2))
        kernel, channels = self._kernel(), depth * times
        attrs = depthwise_attrs(self._padding(), *self._strides(), times, self._activation())
        return "DEPTHWISE_CONV_2D", self._layer(data, (1, *kernel, channels), channels, 3), attrs

    def _dense(self, data: Tensor) -> tuple[str, Operands, object]:
        units = self.random.choice(_SIZES)
        operands = self._layer(data, (units, _last(data)), units, 0)
        return "FULLY_CONNECTED", operands, default_attrs("FULLY_CONNECTED")

    def _pooling(self, data: Tensor) -> tuple[str, Operands, object]:
        attrs = pool_attrs(self._padding(), *self._strides(), *self._kernel(), self._activation())
        return self.random.choice(("MAX_POOL_2D", "AVERAGE_POOL_2D")), [data], attrs

    def _layer(self, data: Tensor, shape: tuple[int, ...], units: int, axis: int) -> Operands:
        """Data, weights and bias, per tensor or per channel."""
        if data.dtype is DType.FLOAT32:
            weights, bias = (
                self._constant(self._reals(shape)),
                self._constant(self._reals((units,))),
            )
            return [data, weights, self.random.choice((bias, None))]
        plain = DType.UINT8 if data.dtype is DType.UINT8 else DType.INT8
        scales = np.full(units if plain is DType.INT8 else 1, 0.01, np.float32)
        quant = Quantization.per_channel(scales, axis, 0 if plain is DType.INT8 else 120)
        weights = replace(self._constant(self._data(shape).astype(plain.numpy)), quant=quant)
        bias = self._constant(self._data((units,)).astype(np.int32))
        return [data, weights, self.random.choice((bias, None))]

    def _constant(self, data: np.ndarray) -> Tensor:
        name = f"c{self.random.getrandbits(32)}"
        return Tensor(name, DType.of(data), data.shape, data=data)

    def _data(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(self.random.getrandbits(32)).integers(0, 100, shape)

    def _reals(self, shape: tuple[int, ...]) -> np.ndarray:
        generator = np.random.default_rng(self.random.getrandbits(32))
        return generator.normal(0, 0.3, shape).astype(np.float32)

    def _shape(self, rank: int) -> tuple[int, ...]:
        sizes = [self.random.choice(_SIZES) for _ in range(rank)]
        return (1, *sizes[1:]) if rank == 4 else tuple(sizes)

    def _quant(self, dtype: DType) -> Quantization | None:
        if dtype not in _QUANTISED:
            return None
        zero = 0 if dtype is DType.INT16 else self.random.choice((0, 3))
        return Quantization.per_tensor(self.random.choice((0.05, 0.1, 1 / 256, 0.5)), zero)

    def _kernel(self) -> tuple[int, int]:
        return self.random.choice((1, 1, 2, 3, 3, 5)), self.random.choice((1, 1, 2, 3, 3, 5))

    def _strides(self) -> tuple[int, int]:
        return self.random.choice((1, 1, 2, 3)), self.random.choice((1, 1, 2))

    def _padding(self) -> str:
        return self.random.choice(("SAME", "VALID"))

    def _activation(self) -> str:
        return self.random.choice(("NONE", "NONE", "RELU", "RELU6"))


def _last(tensor: Tensor) -> int:
    return tensor.static_shape[-1] if tensor.shape else 1


def _record(kind: str) -> OpDef:
    return next(record for record in _RECORDS if record.kind == kind)


def _result(kind: str, operands: Operands) -> DType:
    """The type of the result by the first form that the operands fit."""
    given = [None if tensor is None else tensor.dtype.name for tensor in operands]
    for form in _record(kind).dtypes:
        inputs, _, output = form.partition("->")
        pairs = zip(inputs.split(), given, strict=False)
        if all(word in ("*", "_", name) for word, name in pairs):
            word = output.strip()
            return DType[word] if word != "*" else DType[given[0] or "FLOAT32"]
    return DType.FLOAT32
