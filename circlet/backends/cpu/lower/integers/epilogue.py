"""From 8-bit sums to results: what zero points take off, and requantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from circlet.backends.cpu.lower.integers.q8 import Int8
from circlet.backends.cpu.lower.integers.requantisation import Requantisation
from circlet.backends.cpu.lower.products.product import Product
from circlet.backends.cpu.lowering import NoRef, ParamValue, Ref


class Q8Epilogue(NamedTuple):
    """What happens to the sums of an 8-bit or hybrid product.

    Attributes:
        requantise: Parameters, given the weights and the channels of a block. Weights that are
            computed are not given: sums then start at zero.
        weight_zero: What remains to be taken off each weight.
        flip: Whether activations change their top bit on their way into sums.
        bounds: The kernel's parameters of what results are bounded by.
        scales: Where the scales of quantised float images stand.
    """

    requantise: Callable[[Int8, int], Requantisation]
    weight_zero: int
    flip: bool
    bounds: dict[str, ParamValue]
    scales: Ref = NoRef()


Q8Product = Product[Q8Epilogue]


def product_params(product: Q8Product) -> dict[str, ParamValue]:
    """The parameters of `conv_q8.h` and of `amx_conv_q8.h` that do not depend on tiles."""
    return {
        **product.params(),
        "run_bytes": product.im2col.joined().length,
        "channels": product.group_filters,
        "weight_zero": product.epilogue.weight_zero,
        **product.epilogue.bounds,
    }
