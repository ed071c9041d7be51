"""Columns of tables brought into the form that models take."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.tabular.scores import ML, numbers, reals
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import chosen, compared, joined, standard, widened
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.reduce import ReducerAttrs

_MOST_COMPARED = 1 << 12


def _real(node: Node) -> Tensor:
    x = node[0]
    if x.dtype in (DType.STRING, DType.FLOAT64):
        raise NotLoweredError("texts and FLOAT64 are not read")
    return node.cast(x, DType.FLOAT32)


@importer("Scaler", domain=ML)
def _scaler(node: Node) -> Tensor:
    """(x - offset) * scale, of all columns or of each."""
    x = _real(node)
    for kind, name in (("SUB", "offset"), ("MUL", "scale")):
        values = reals(node, name)
        if values.size:
            x = node.op(kind, [x, node.const(values if values.size > 1 else values[0])])
    return x


@importer("Normalizer", domain=ML)
def _normalizer(node: Node) -> Tensor:
    """Rows divided by their greatest element, or their length; as they are where that is 0."""
    x, norm, keep = _real(node), node.text("norm", "MAX"), ReducerAttrs(True)
    last = node.const([node.rank(node[0]) - 1], np.int32)
    if norm == "MAX":
        length = node.op("REDUCE_MAX", [x, last], keep)
    elif norm == "L1":
        length = node.op("SUM", [node.op("ABS", [x]), last], keep)
    elif norm == "L2":
        length = node.op("SQRT", [node.op("SUM", [node.op("MUL", [x, x]), last], keep)])
    else:
        raise node.wrong("there is no such norm", norm)
    is_zero = compared(node, "EQUAL", length, node.const(np.float32(0)))
    return node.op("DIV", [x, chosen(node, is_zero, node.const(np.float32(1)), length)])


@importer("Binarizer", domain=ML)
def _binarizer(node: Node) -> Tensor:
    limit = node.const(np.float32(node.real("threshold", 0)))
    return node.cast(compared(node, "GREATER", _real(node), limit), DType.FLOAT32)


@importer("Imputer", domain=ML)
def _imputer(node: Node) -> Tensor:
    """One value, maybe what is no number, replaced by another for all columns or for each."""
    x = node[0]
    old: np.ndarray
    if x.dtype is DType.FLOAT32:
        values = reals(node, "imputed_value_floats")
        old = np.array(node.real("replaced_value_float", 0), np.float32)
    else:
        values = np.array(node.ints("imputed_value_int64s") or (), x.dtype.numpy)
        old = np.array(node.whole("replaced_value_int64"), x.dtype.numpy)
    if not values.size:
        raise node.wrong("there is nothing to replace a value by")
    kind, other = ("NOT_EQUAL", x) if (old != old).any() else ("EQUAL", node.const(old))
    new = node.const(values if values.size > 1 else values[0])
    return chosen(node, compared(node, kind, x, other), new, x)


@importer("FeatureVectorizer", domain=ML)
def _feature_vectorizer(node: Node) -> Tensor:
    parts = [numbers(node, index) for index in range(len(node.inputs))]
    return parts[0] if len(parts) == 1 else joined(node, parts, -1)


@importer("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(node: Node) -> Tensor:
    """Elements of the last axis; of a list, as a row."""
    x, places = node[0], node.reshape(node[1], [-1])
    made = standard(node, "Gather", [x, places], axis=-1)
    return widened(node, made, 0) if node.rank(x) == 1 else made


@importer("OneHotEncoder", domain=ML)
def _one_hot_encoder(node: Node) -> Tensor:
    classes = node.ints("cats_int64s")
    if classes is None or not node.whole("zeros", 1):
        raise NotLoweredError("classes are texts, or others are errors")
    x = node.cast(node[0], DType.INT64)
    same = compared(node, "EQUAL", widened(node, x, -1), node.const(classes, np.int64))
    return node.cast(same, DType.FLOAT32)


@importer("LabelEncoder", since=2, domain=ML)
def _label_encoder(node: Node) -> Tensor:
    """The value beside the key that an element is, else the default."""
    x = node[0]
    keys = node.attributes.get("keys_int64s" if x.dtype is DType.INT64 else "keys_floats")
    is_whole = "values_int64s" in node.attributes
    values = node.attributes.get("values_int64s" if is_whole else "values_floats")
    if x.dtype not in (DType.INT64, DType.FLOAT32) or keys is None or values is None:
        raise NotLoweredError("only lists of numbers are encoded, to numbers")
    if not 0 < len(keys) <= _MOST_COMPARED or len(values) != len(keys):
        raise NotLoweredError(f"there are not 1 to {_MOST_COMPARED} keys, a value for each")
    dtype = np.int64 if is_whole else np.float32
    default = node.whole("default_int64", -1) if is_whole else node.real("default_float", -0.0)
    same = compared(node, "EQUAL", widened(node, x, -1), node.const(keys, x.dtype.numpy))
    found = node.cast(same, DType.FLOAT32)
    last = node.const([node.rank(x)], np.int32)
    place = standard(node, "ArgMax", [found], axis=-1, keepdims=0)
    picked = node.op("GATHER", [node.const(values, dtype), place])
    is_known = node.op("REDUCE_ANY", [same, last], ReducerAttrs(False), DType.BOOL)
    return chosen(node, is_known, picked, node.const(default, dtype))


@importer("ZipMap", domain=ML)
def _zip_map(node: Node) -> Tensor:
    """The scores as they are: a table whose columns are the classes, instead of maps."""
    return node[0]
