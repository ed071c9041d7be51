"""Float products over bfloat16 on AMX tiles, where they beat dot products of vectors."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.floats.bf16 import BF16_BYTES, to_bf16
from circlet.backends.cpu.lower.floats.epilogue import FloatProduct, edges
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES
from circlet.backends.cpu.lower.integers.amx_q8 import ROWS, Step, fits_tiles, pack_tiles
from circlet.backends.cpu.lower.products.product import Im2colRow
from circlet.backends.cpu.lowering import Context, Kernel, ParamValue
from circlet.target.targets import Target


def takes_tiles(product: FloatProduct, target: Target) -> bool:
    """Whether tiles compute a rounded product in less time than vectors."""
    row = _bytes(product)
    step = Step.of(product.width, product.filters)
    plain = target.has("amx_bf16") and product.groups == 1
    return plain and fits_tiles(row) and step.pays(row)


def call_amx_bf16(product: FloatProduct, context: Context) -> None:
    """Append the kernel call that computes a rounded product."""
    row, filters, op = _bytes(product), product.filters, product.op
    step = Step.of(product.width, filters)
    packed = context.packed(
        op,
        f"amx_conv_bf16 {step.tiles} {row.rows} {row.columns} {row.length} {product.part}",
        lambda: (_pack(product, row, step.columns), None),
    )
    dealt, tasks = step.dealt(row, product.rows, product.width, filters)
    tiles = row.params() | dealt | _window_params(product, row)
    params = {f"tiles_{name}": value for name, value in tiles.items()}
    params |= {f"conv_{name}": value for name, value in edges(product).items()}
    epilogue = product.epilogue
    context.call(
        op,
        Kernel("amx_conv_bf16.h", "amx_conv_bf16", (step.groups, step.tiles, epilogue.adds)),
        params,
        (product.source.ref, *packed.refs, product.result.ref, epilogue.addend_ref),
        [product.result.tensor],
        tasks=tasks,
        scratch_bytes=2 * ROWS * step.columns * FLOAT_BYTES,
    )


def _window_params(product: FloatProduct, row: Im2colRow) -> dict[str, ParamValue]:
    """Where windows lie, in bytes, and how many there are."""
    return {
        "run_bytes": row.length,
        **product.source.strides("in", BF16_BYTES),
        "image_rows": product.sizes[1],
        "rows": product.rows,
        "row_pixels": product.width,
        "channels": product.filters,
    }


def _bytes(product: FloatProduct) -> Im2colRow:
    """A row of the im2col matrix in bytes."""
    return product.im2col.in_bytes(BF16_BYTES)


def _pack(product: FloatProduct, row: Im2colRow, columns: int) -> list[np.ndarray]:
    """Weights and biases."""
    stored = to_bf16(np.ascontiguousarray(product.weights())).view(np.int8)
    weights = stored.reshape(product.filters, row.rows, row.columns, row.length)
    bias = product.epilogue.padded_bias(product.filters, columns)
    return [pack_tiles(weights, np.arange(columns)), bias]
