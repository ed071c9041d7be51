"""LiteRT with its reference kernels, as the judge of our arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

Tensors = Mapping[int, np.ndarray]


class PeerRefusedError(Exception):
    """LiteRT cannot load or run the model; the text says why."""


def golden_inputs(path: Path, case: str) -> list[np.ndarray] | None:
    """The inputs stored beside a corpus model for a case, or None where there are none."""
    store = path.parent.parent / "golden" / f"{path.name}.npz"
    if not store.exists():
        return None
    with np.load(store) as arrays:
        keys = [key for key in arrays.files if key.startswith(f"{case}/in/")]
        return [arrays[key] for key in sorted(keys, key=lambda key: int(key.split("/")[2]))] or None


def run_peer(path: Path, case: str = "rand") -> dict[int, np.ndarray]:
    """Every tensor of the main graph, by index, after one run on the case's inputs.

    Without stored inputs, seeded random ones are used.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415

    try:
        interpreter = Interpreter(
            str(path),
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        _feed(interpreter, golden_inputs(path, case))
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise PeerRefusedError(str(error)) from error
    details = interpreter.get_tensor_details()
    return {
        d["index"]: array for d in details if (array := _read(interpreter, d["index"])) is not None
    }


def _feed(interpreter: object, values: list[np.ndarray] | None) -> None:
    details = interpreter.get_input_details()  # type: ignore[attr-defined]
    arrays = values or [_random(d, np.random.default_rng(i)) for i, d in enumerate(details)]
    for detail, array in zip(details, arrays, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)  # type: ignore[attr-defined]
    interpreter.allocate_tensors()  # type: ignore[attr-defined]
    for detail, array in zip(details, arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)  # type: ignore[attr-defined]


def _random(detail: Mapping[str, object], rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(detail["dtype"])  # type: ignore[call-overload]
    shape = tuple(int(size) for size in detail["shape"])  # type: ignore[attr-defined]
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize < 4 else (0, 8)
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def _read(interpreter: object, index: int) -> np.ndarray | None:
    """The value of a tensor, or None for one that no kernel used."""
    try:
        array = interpreter.get_tensor(index)  # type: ignore[attr-defined]
    except ValueError:
        return None
    return array if isinstance(array, np.ndarray) else None
