"""Tensors described as LiteRT's Python interpreter describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.ir import BlockwiseQuant, DType, Quantization, Tensor

Details = dict[str, Any]
_FORMATS = {"DENSE": 0, "SPARSE_CSR": 1}
# LiteRT's Python types of the elements that numpy has no type for.
_OTHER_TYPES: dict[DType, type] = {
    DType.STRING: np.bytes_,
    DType.INT2: np.int8,
    DType.INT4: np.int8,
    DType.UINT4: np.uint8,
}


def tensor_details(tensor: Tensor, index: int, shape: tuple[int, ...]) -> Details:
    """The dictionary of one tensor; `shape` is its size now."""
    return {
        "name": tensor.name,
        "index": index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(_signature(tensor, shape), np.int32),
        "dtype": element_type(tensor),
        "quantization": _per_tensor(tensor.quant),
        "quantization_parameters": _quantisation(tensor.quant),
        "sparsity_parameters": _sparsity(tensor),
    }


def element_type(tensor: Tensor) -> type:
    """The numpy scalar type of the elements, `object` where there is none."""
    if tensor.dtype.has_numpy:
        return tensor.dtype.numpy.type
    return _OTHER_TYPES.get(tensor.dtype, np.object_)


def litert_type(dtype: np.dtype[Any]) -> str:
    """LiteRT's name of the elements of a numpy array."""
    return "STRING" if dtype.kind in "OSU" else dtype.name.upper()


def _signature(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with -1 where the file leaves a size open."""
    if None not in tensor.shape:
        return shape
    return tuple(-1 if size is None else size for size in tensor.shape)


def _per_tensor(quant: Quantization | None) -> tuple[float, int]:
    if quant is None or quant.scale.size != 1:
        return 0.0, 0
    return float(quant.scale[0]), int(quant.zero_point[0])


def _quantisation(quant: Quantization | None) -> Details:
    if quant is not None and isinstance(quant.details, BlockwiseQuant):
        return _blockwise(quant.details)
    affine = quant if quant is not None and quant.is_affine else None
    return {
        "scales": np.array(affine.scale if affine else (), np.float32),
        "zero_points": np.array(affine.zero_point if affine else (), np.int32),
        "quantized_dimension": affine.axis if affine else 0,
        "block_size": 0,
    }


def _blockwise(details: BlockwiseQuant) -> Details:
    """Scales and zero points that lie in other tensors."""
    return {
        "scales": _elements(details.scales, np.float32),
        "zero_points": _elements(details.zero_points, np.int32),
        "quantized_dimension": 0,
        "block_size": details.block_size,
    }


def _elements(tensor: Tensor | None, dtype: npt.DTypeLike) -> np.ndarray:
    data = None if tensor is None else tensor.data
    return np.zeros(0, dtype) if data is None else data.reshape(-1).copy()


def _sparsity(tensor: Tensor) -> Details:
    stored = tensor.sparsity
    if stored is None:
        return {}
    return {
        "traversal_order": np.array(stored.traversal_order, np.int32),
        "block_map": np.array(stored.block_map, np.int32),
        "dim_metadata": [_dimension(dim) for dim in stored.dims],
    }


def _dimension(dim: Mapping[str, object]) -> Details:
    if dim["format"] == "DENSE":
        return {"format": _FORMATS["DENSE"], "dense_size": dim["dense_size"]}
    segments, indices = (_indices(dim[name]) for name in ("array_segments", "array_indices"))
    return {
        "format": _FORMATS["SPARSE_CSR"],
        "array_segments": segments,
        "array_indices": indices,
    }


def _indices(stored: object) -> np.ndarray:
    values = stored.get("values", ()) if isinstance(stored, Mapping) else ()
    return np.array(values, np.int32)
