"""What a network file is, found from its contents: class, inputs, work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.formats import load
from circlet.formats.arrays import Wanted, random_array
from circlet.ir import DType, Graph, Model, Op, Tensor
from circlet.ir.copy import copy_of_main
from circlet.ops import find
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.passes.fuse_qdq import FuseQdq

CLASSES = ("fp32", "integer", "hybrid")
SUFFIXES = (".tflite", ".circle", ".onnx")
_QUANTISED = {DType.INT4, DType.INT8, DType.UINT8, DType.INT16}
_WEIGHTS = {DType.INT2, DType.INT4, DType.UINT4, DType.INT8, DType.UINT8}


@dataclass(frozen=True)
class Network:
    """A file to measure.

    Attributes:
        kind: One of `CLASSES`.
        macs: Multiply-accumulates of a run, by the operators' records.
        bytes: Size of the file.
    """

    path: Path
    kind: str
    macs: int
    bytes: int

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.path.stem


def find_networks(paths: Iterable[Path]) -> list[Path]:
    """The files among the paths and the network files in the folders among them, sorted by name."""
    found = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else []
        found += inside or ([] if path.is_dir() else [path])
    return found


def described(path: Path, model: Model | None = None) -> Network:
    """The network of a file, or of what was read of it and has other sizes."""
    size = path.stat().st_size
    model = model or load(path)
    macs = sum(_macs(op) for op in model.main.ops)
    return Network(path, class_of(model), macs, size)


def classified(path: Path) -> str:
    """The class of a file."""
    return described(path).kind


def class_of(model: Model) -> str:
    """By which arithmetic most multiply-accumulates with weights are done.

    fp32 where activations and weights are floats (float16 weights and weights behind DEQUANTIZE
    are), hybrid where only the weights are integers, integer where both are. A network without
    such operators is integer where most of its quantised or float tensors are quantised. Products
    between QuantizeLinear and DequantizeLinear are those of integers.
    """
    if any(op.label == DEQUANTIZE for op in model.main.ops):
        model = copy_of_main(model)
        FuseQdq().run(model.main)
    work: Counter[str] = Counter()
    for op in _ops(model.main):
        kind = _arithmetic(op)
        if kind:
            work[kind] += max(1, _macs(op))
    if not work:
        work.update(_storage(tensor) for tensor in model.main.used_tensors())
        work.pop("", None)
    return max(CLASSES, key=lambda kind: work[kind]) if work else "fp32"


def _ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for region in op.regions:
            yield from _ops(region)


def _arithmetic(op: Op) -> str:
    """The class of an operator with weights, or nothing."""
    weights = [t.dtype for t in op.inputs[1:] if t is not None and len(t.shape) > 1]
    data = op.input(2) if op.kind == "TRANSPOSE_CONV" else op.input(0)
    if data is None or not weights or not _macs(op) or not _multiplies(op):
        return ""
    if data.dtype in _QUANTISED:
        return "integer"
    return "hybrid" if weights[0] in _WEIGHTS else "fp32"


def _multiplies(op: Op) -> bool:
    """Whether there is more work than one operation per element moved."""
    return _macs(op) > sum(tensor.elements for tensor in op.outputs)


def _storage(tensor: Tensor) -> str:
    if tensor.dtype.is_float:
        return "fp32"
    quantised = tensor.dtype in _QUANTISED and tensor.quant is not None
    return "integer" if quantised and not tensor.is_constant else ""


def _macs(op: Op) -> int:
    record = find(op.label)
    return 0 if record is None else record.cost(op).macs


def random_inputs(
    path: Path, sizes: dict[str, tuple[int, ...]] | None = None
) -> dict[str, np.ndarray]:
    """Seeded inputs by name in the file's order, of the file's sizes or of those given.

    Raises:
        ValueError: An input holds no numbers.
    """
    inputs: dict[str, np.ndarray] = {}
    for position, tensor in enumerate(load(path).main.inputs):
        if tensor.is_constant:
            continue
        dtype = tensor.dtype.in_arrays
        if dtype is None or dtype == np.dtype(object):
            raise ValueError(f"input {tensor.name} is of type {tensor.dtype.name}")
        name = tensor.name if tensor.name and tensor.name not in inputs else f"#{position}"
        shape = (sizes or {}).get(name, tensor.static_shape)
        inputs[name] = random_array(Wanted(name, dtype.name, shape))
    return inputs
