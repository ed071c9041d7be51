"""From float sums to results: a bias that sums start with, an addend, and a clamp."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.products.product import Product, View
from circlet.backends.cpu.lowering import NoRef, ParamValue, Ref

FloatArray = npt.NDArray[np.float32]

CLAMPS = {"NONE": (-inf, inf), "RELU": (0.0, inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
_NOWHERE = (0, 0, 0)


@dataclass(frozen=True)
class FloatEpilogue:
    """What happens to the sums of a float product.

    Attributes:
        bias: One value per filter, or None.
        activation: Fused activation's name.
        addend: Added before the activation, or None.
        add_channels: Channels that the addend has.
    """

    bias: FloatArray | None = None
    activation: str = "NONE"
    addend: View | None = None
    add_channels: int = 0

    @property
    def adds(self) -> int:
        """1 where there is an addend, else 0: an argument of kernels."""
        return int(self.addend is not None)

    @property
    def addend_ref(self) -> Ref:
        """The address of the addend."""
        return NoRef() if self.addend is None else self.addend.ref

    def padded_bias(self, filters: int, block: int) -> FloatArray:
        """The bias of whole blocks of filters, zeros where there is none."""
        padded = np.zeros(-(-filters // block) * block, np.float32)
        padded[:filters] = 0 if self.bias is None else self.bias
        return padded


FloatProduct = Product[FloatEpilogue]


def edges(product: FloatProduct) -> dict[str, ParamValue]:
    """The kernels' parameters for input, output, addend and clamp."""
    epilogue = product.epilogue
    addend = epilogue.addend or View(product.result.tensor, 0, *_NOWHERE)
    return {
        **product.source.strides("in"),
        **product.result.strides("out"),
        **addend.strides("add"),
        "add_channels": epilogue.add_channels,
        **clamp_params(epilogue.activation),
    }


def clamp_params(activation: str) -> dict[str, ParamValue]:
    """The kernels' limits for a fused activation."""
    low, high = CLAMPS[activation]
    return {"low": low, "high": high}
