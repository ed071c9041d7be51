"""LiteRT with its reference kernels, as the judge of our arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from circlet.ir import Graph, Tensor


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


def run_peer(
    path: Path, graph: Graph, case: str = "rand", *, isolated: bool = True
) -> dict[Tensor, np.ndarray]:
    """The value of every tensor that an op of the main graph uses, after one run on the case.

    Without stored inputs, seeded random ones are used. The peer runs in a process of its own
    where `isolated`, for some models bring it down.
    """
    used = {t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    constants = {i: t.data for i, t in enumerate(graph.tensors) if t.data is not None}
    wanted = [i for i, t in enumerate(graph.tensors) if t in used and t.dtype.has_numpy]
    arguments = str(path), golden_inputs(path, case), sorted(constants), wanted
    try:
        found = _run_isolated(*arguments) if isolated else _run(*arguments)
    except BrokenProcessPool as error:
        raise PeerRefusedError("LiteRT crashed") from error
    except (ValueError, RuntimeError) as error:
        raise PeerRefusedError(str(error)) from error
    return {graph.tensors[index]: value for index, value in {**found, **constants}.items()}


def _run_isolated(*arguments: Any) -> dict[int, np.ndarray]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_run, *arguments).result()


def _run(
    path: str, inputs: list[np.ndarray] | None, constants: list[int], wanted: list[int]
) -> dict[int, np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        path,
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    _feed(interpreter, constants, inputs)
    interpreter.invoke()
    values = {index: _read(interpreter, index) for index in wanted if index not in constants}
    return {index: array for index, array in values.items() if array is not None}


def _feed(interpreter: Any, constants: list[int], values: list[np.ndarray] | None) -> None:
    """Set all inputs but constant ones: the peer maps their memory read-only."""
    details = interpreter.get_input_details()
    arrays = values or [_random(d, np.random.default_rng(i)) for i, d in enumerate(details)]
    pairs = list(zip(details, arrays, strict=True))
    pairs = [pair for pair in pairs if pair[0]["index"] not in constants]
    for detail, array in pairs:
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in pairs:
        interpreter.set_tensor(detail["index"], array)


def _random(detail: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(detail["dtype"])
    shape = tuple(int(size) for size in detail["shape"])
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize < 4 else (0, 8)
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def _read(interpreter: Any, index: int) -> np.ndarray | None:
    """The value of a tensor, or None for one that no kernel used."""
    try:
        array = interpreter.get_tensor(index)
    except ValueError:
        return None
    return np.asarray(array) if isinstance(array, np.ndarray | np.generic) else None
