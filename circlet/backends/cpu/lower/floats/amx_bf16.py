"""Float products over bfloat16 on AMX tiles, where they beat dot products of vectors."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.floats.bf16 import BF16_BYTES, to_bf16
from circlet.backends.cpu.lower.floats.matrix import Matrix
from circlet.backends.cpu.lower.integers.amx_q8 import ROWS, Step, fits_tiles, pack_tiles
from circlet.backends.cpu.lower.windows import Runs
from circlet.backends.cpu.lowering import Context, Kernel, NoRef, ParamValue, Ref
from circlet.ir import Op
from circlet.target.targets import Target

_FLOAT_BYTES = 4


def takes_tiles(matrix: Matrix, window: dict[str, int], target: Target) -> bool:
    """Whether tiles compute a rounded matrix in less time than vectors."""
    runs = _runs(window)
    step = Step.of(matrix.sizes[2], len(matrix.weights))
    plain = target.has("amx_bf16") and matrix.groups == 1
    return plain and fits_tiles(runs) and step.pays(runs)


def call_tiles(
    op: Op,
    context: Context,
    matrix: Matrix,
    window: dict[str, int],
    results: dict[str, ParamValue],
) -> None:
    """Append the kernel call that computes a rounded matrix.

    Args:
        results: Strides and limits of the results, as for `conv_f32.h`.
    """
    runs, (images, height, width) = _runs(window), matrix.sizes
    filters = len(matrix.weights)
    step = Step.of(width, filters)
    packed = context.packed(
        op,
        f"amx_conv_bf16 {step.tiles} {runs} {matrix.part}",
        lambda: (_pack(matrix, runs, step.columns), None),
    )
    dealt, tasks = step.dealt(runs, images * height, width, filters)
    tiles = runs.params() | dealt | _places(matrix, runs)
    params = {f"tiles_{name}": value for name, value in tiles.items()}
    params |= {f"conv_{name}": value for name, value in results.items()}
    addend: Ref = NoRef() if matrix.addend is None else matrix.addend.ref
    arguments = (step.groups, step.tiles, int(matrix.addend is not None))
    context.call(
        op,
        Kernel("amx_conv_bf16.h", "amx_conv_bf16", arguments),
        params,
        (matrix.source.ref, *packed.refs, matrix.result.ref, addend),
        [matrix.result.tensor],
        tasks=tasks,
        scratch_bytes=2 * ROWS * step.columns * _FLOAT_BYTES,
    )


def _places(matrix: Matrix, runs: Runs) -> dict[str, ParamValue]:
    """Where the rows of a matrix are, in bytes, and how many there are."""
    view, (images, height, width) = matrix.source, matrix.sizes
    return {
        "run_bytes": runs.bytes,
        "in_batch": view.batch * BF16_BYTES,
        "in_row": view.row * BF16_BYTES,
        "in_pixel": view.pixel * BF16_BYTES,
        "image_rows": height,
        "rows": images * height,
        "row_pixels": width,
        "channels": len(matrix.weights),
    }


def _runs(window: dict[str, int]) -> Runs:
    """Runs of a window in bytes."""
    steps = (window[name] * BF16_BYTES for name in ("run", "tap_row", "tap_run"))
    return Runs(window["tap_rows"], window["tap_runs"], *steps)


def _pack(matrix: Matrix, runs: Runs, columns: int) -> list[np.ndarray]:
    """Weights and biases."""
    filters = len(matrix.weights)
    stored = to_bf16(np.ascontiguousarray(matrix.weights)).view(np.int8)
    weights = stored.reshape(filters, runs.down, runs.across, runs.bytes)
    bias = np.zeros(-(-filters // columns) * columns, np.float32)
    bias[:filters] = 0 if matrix.bias is None else matrix.bias
    return [pack_tiles(weights, np.arange(columns)), bias]
