"""What compiled code leaves for the same network at other sizes: kernels and packed constants."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from circlet.backends.cpu.lowering import ConstantRef, Kernel, Packed
from circlet.errors import ArtifactError
from circlet.ir import DType, Op, Quantization, Tensor
from circlet.ops.fused import parts_of

KernelLocation = tuple[int, int]  # unit, and index of the kernel in it


@dataclass(frozen=True)
class ReuseIndex:
    """Kernels of units that are loaded, and constants of one partition that are packed.

    Attributes:
        kernels: Unit and index of each kernel, by `kernel_key`.
        packed: Where packed arrays are in the partition's constants, by `Signatures.key`.
        units: How many units there are.
        constants_bytes: Size of the partition's constants.
    """

    kernels: Mapping[str, KernelLocation] = field(default_factory=dict)
    packed: Mapping[str, Packed] = field(default_factory=dict)
    units: int = 0
    constants_bytes: int = 0

    def to_bytes(self) -> bytes:
        """The index as a section of an artifact."""
        packed = {
            key: ([ref.offset for ref in entry.refs], entry.fact)
            for key, entry in self.packed.items()
        }
        return json.dumps(vars(self) | {"packed": packed}, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> ReuseIndex:
        """The index that `to_bytes` wrote; an empty one from no bytes."""
        if not len(data):
            return NO_REUSE
        try:
            rows = json.loads(bytes(data))
            kernels = {key: (unit, index) for key, (unit, index) in rows["kernels"].items()}
            packed = {
                key: Packed(tuple(map(ConstantRef, offsets)), fact)
                for key, (offsets, fact) in rows["packed"].items()
            }
            return ReuseIndex(kernels, packed, rows["units"], rows["constants_bytes"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = f"its reuse index: {error!r}"
            raise ArtifactError("an artifact is damaged", why=why) from error


NO_REUSE = ReuseIndex()


@lru_cache(maxsize=4096)
def kernel_key(kernel: Kernel) -> str:
    """The same for two kernels exactly where they are the same C."""
    prelude = blake2b(kernel.prelude.encode(), digest_size=16).hexdigest() if kernel.prelude else ""
    return f"{kernel.header} {kernel.function} {kernel.arguments} {prelude}"


class Signatures:
    """Names for what packed constants follow from: an op's constants, types and attributes.

    Args:
        names: Constants of the model as it was read; they have the same name at every size. Others
            are known by their contents, and added.
    """

    def __init__(self, names: MutableMapping[Tensor, str]) -> None:
        self._names = names
        self._known: dict[Op, str] = {}

    def key(self, op: Op, name: str) -> str:
        """A short text for what is called `name` and follows from `op` and from no other size."""
        known = self._known.get(op)
        if known is None:
            text = self._signature(op).encode()
            known = self._known[op] = blake2b(text, digest_size=16).hexdigest()
        return f"{known} {name}"

    def _signature(self, op: Op) -> str:
        tensors: Sequence[Tensor | None] = (*op.inputs, None, *op.outputs)
        parts = map(self._signature, parts_of(op))
        return "\n".join([op.label, repr(op.attrs), *map(self._described, tensors), *parts])

    def _described(self, tensor: Tensor | None) -> str:
        if tensor is None:
            return ""
        if tensor.data is not None:
            return self.constant(tensor)
        return _type_text(tensor.dtype, tensor.quant)

    def constant(self, tensor: Tensor) -> str:
        """A short text for a constant as it is."""
        name = self._names.get(tensor)
        if name is None:
            assert tensor.data is not None
            digest = blake2b(tensor.data.tobytes(), digest_size=16).hexdigest()
            kind = f"{_type_text(tensor.dtype, tensor.quant)} {tensor.shape}"
            name = self._names[tensor] = f"{kind} {digest}"
        return name


@lru_cache(maxsize=4096)
def _type_text(dtype: DType, quant: Quantization | None) -> str:
    return f"{dtype.value} {'' if quant is None else quant.text}"
