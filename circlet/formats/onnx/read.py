"""A whole .onnx file: bytes to `circlet.ir.Model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from circlet.errors import FormatError, GraphError, InputError, LimitError, UnsupportedOpsError
from circlet.formats.onnx.checked import (
    DEFAULT_DOMAINS,
    all_graphs,
    all_nodes,
    check_names,
    check_nodes,
    stated_opsets,
)
from circlet.formats.onnx.graph import GraphImporter, Reading
from circlet.formats.onnx.node_order import sort_nodes
from circlet.formats.onnx.notes import SIGNATURES, stated_signatures, text_blob
from circlet.formats.onnx.skeleton import skeleton
from circlet.formats.onnx.table import imported_kinds
from circlet.formats.onnx.tensors import TensorStore
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops import all_records
from circlet.ops.onnx.record import PREFIX

OLDEST_OPSET = 6
# Kinds with a record that run faster as the functions that the standard writes them as.
_UNFOLDED = frozenset({"Attention", "LinearAttention"})


def read_onnx(
    data: memoryview, limits: Limits = DEFAULT_LIMITS, folder: Path | None = None
) -> Model:
    """The model that the bytes hold; large constants are views into them.

    `folder` is where the file lies, for tensors that are stored in files beside it.

    Raises:
        InputError: The package `onnx` is not installed.
        FormatError, GraphError, LimitError: The contents are no model that can be used.
        UnsupportedOpsError: Some operators cannot be imported; all are named.
    """
    limits.check_file(len(data))
    small, views = skeleton(data)
    proto = _parsed(small)
    opsets = _opsets(proto)
    check_nodes(proto, opsets)
    proto = _inferred(_inlined(_inferred(proto)))
    store = TensorStore(views, limits, folder)
    state = Reading(store, limits, opsets)
    graph = GraphImporter(state, proto.graph).run()
    if state.unsupported:
        raise UnsupportedOpsError(state.unsupported)
    model = Model([graph, *state.graphs], str(proto.doc_string), source_format="onnx")
    entries = {str(entry.key): str(entry.value) for entry in proto.metadata_props}
    model.signatures = stated_signatures(entries.pop(SIGNATURES, "[]"), graph)
    model.metadata = {name: text_blob(text) for name, text in entries.items()}
    if store.files:
        model.extra["external_files"] = sorted(store.files)
    return model


def _parsed(data: bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise InputError(
            ".onnx files are read with the package onnx, which is not installed",
            fix="pip install 'circlet[onnx]'",
        ) from None
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise FormatError("the .onnx file is damaged", why=str(error)) from None
    if not proto.HasField("graph"):
        raise FormatError("the .onnx file holds no graph", why="it may be damaged, or none at all")
    check_names(proto)
    sort_nodes(proto)
    return proto


def _opsets(proto: Any) -> dict[str, int]:
    """The version of each operator set that the file imports.

    Raises:
        FormatError: The default one is too old or too new.
    """
    from onnx.defs import onnx_opset_version

    found = stated_opsets(proto.opset_import)
    version, newest = found.setdefault("", OLDEST_OPSET), onnx_opset_version()
    if 1 <= version < OLDEST_OPSET and _means_the_same(proto, version):
        return found
    if not OLDEST_OPSET <= version <= newest:
        raise FormatError(
            f"operator set {version} is not read",
            why=f"read are {OLDEST_OPSET} to {newest}, the newest that the package onnx knows",
            fix="update the package onnx, or convert the model with onnx.version_converter",
        )
    return found


def _means_the_same(proto: Any, version: int) -> bool:
    """Whether all operators of a model mean in the oldest set that is read what they meant then."""
    from onnx import defs

    for node in all_nodes(proto):
        try:
            known = [defs.get_schema(node.op_type, v) for v in (version, OLDEST_OPSET)]
        except defs.SchemaError:
            return False
        if known[0].since_version != known[1].since_version:
            return False
    return True


def _inlined(proto: Any) -> Any:
    """The model without calls of functions: its own, and operators that the standard writes so."""
    from onnx.inliner import inline_selected_functions

    from circlet.formats.onnx import importers  # noqa: F401  (fills the table)

    kept = _known()
    own = {(function.domain, function.name) for function in proto.functions}
    used = {(node.domain, node.op_type) for node in all_nodes(proto)}
    unfolded = {key for key in used & kept - own if key[1] in _UNFOLDED}
    if not own and not unfolded and not any(_has_body(*key) for key in used - kept):
        return proto
    _state_types_of_constants(proto)
    why = ""
    for left in (kept - own - unfolded, kept - own):
        try:
            return inline_selected_functions(
                proto, sorted(left), True, inline_schema_functions=True
            )
        except (RuntimeError, ValueError) as error:  # it cannot unfold all forms of some
            why = str(error)
    raise FormatError("the functions of the model do not fit", why=why)


def _state_types_of_constants(proto: Any) -> None:
    """Add the types of initialisers, which the inliner looks for among those of values alone."""
    from onnx.helper import make_tensor_value_info

    for graph in all_graphs(proto.graph):
        stated = {value.name for value in (*graph.input, *graph.value_info)}
        graph.value_info.extend(
            make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in graph.initializer
            if tensor.name not in stated
        )


def _known() -> set[tuple[str, str]]:
    """The operators that are read as they are."""
    own = (record.kind.removeprefix(f"CUSTOM:{PREFIX}") for record in all_records())
    kinds = {*imported_kinds(), *(kind.rpartition(".")[::2] for kind in own)}
    return kinds | {("ai.onnx", kind) for domain, kind in kinds if not domain}


def _has_body(domain: str, kind: str) -> bool:
    from onnx import defs

    try:
        schema = defs.get_schema(kind, domain="" if domain in DEFAULT_DOMAINS else domain)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inferred(proto: Any) -> Any:
    """The model with the types of its values, as far as ONNX can tell them by types alone.

    It is not asked to follow what small integers are (`data_prop`): it would hold each element of
    any vector as an object, and give ConstantOfShape's result as many dimensions, so that a file
    of 90 bytes may ask for gigabytes. Records find the same sizes, within the limits.
    """
    from onnx.shape_inference import InferenceError, infer_shapes

    try:
        return infer_shapes(proto, check_type=True)
    except MemoryError as error:
        why = "the types and sizes of its values cannot be held"
        raise LimitError("there is not enough memory", why=why) from error
    except (InferenceError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else ""
        raise GraphError(
            "the types or sizes of the model contradict each other", why=first
        ) from None
