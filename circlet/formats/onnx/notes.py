"""What Circlet puts into the metadata of .onnx files, to and from the texts that they hold.

Operators' origins stand at nodes, as `[[id, name], ...]`; signatures at the model, by the names of
its inputs and outputs; metadata that is no text is a data URL.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any

import numpy as np

from circlet.errors import FormatError
from circlet.ir import Graph, Model, Origin, Signature, SourceOp, Tensor

ORIGIN = "circlet.origin"
SIGNATURES = "circlet.signatures"
_BYTES = "data:application/octet-stream;base64,"


def origin_text(origin: Origin) -> str:
    """An origin as a node has it."""
    return json.dumps([[source.id, source.name] for source in origin.sources])


def stated_origin(entries: Any, where: str) -> Origin | None:
    """The origin among the metadata of a node.

    Raises:
        FormatError: It is damaged.
    """
    text = next((str(entry.value) for entry in entries if entry.key == ORIGIN), None)
    if text is None:
        return None
    try:
        sources = [SourceOp(_number(number), str(name)) for number, name in json.loads(text)]
        return Origin.union(Origin((source,)) for source in sources)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError("an operator's origin is damaged", where=where, why=str(error)) from None


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError(f"{value!r} is no position")
    return value


def blob_text(blob: np.ndarray) -> str:
    """Metadata as a text."""
    raw = blob.tobytes()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _BYTES + b64encode(raw).decode()


def text_blob(text: str) -> np.ndarray:
    """The metadata that a text stands for; a damaged data URL stands for itself."""
    raw = text.encode()
    if text.startswith(_BYTES):
        with suppress(ValueError):
            raw = b64decode(text.removeprefix(_BYTES), validate=True)
    return np.frombuffer(raw, np.uint8)


def signatures_text(model: Model) -> str:
    """The signatures of the main graph; "" without any."""
    found = [_said(each) for each in model.signatures if each.graph is model.main]
    return json.dumps(found) if found else ""


def _said(signature: Signature) -> dict[str, object]:
    return {
        "key": signature.key,
        "inputs": {name: tensor.name for name, tensor in signature.inputs.items()},
        "outputs": {name: tensor.name for name, tensor in signature.outputs.items()},
    }


def stated_signatures(text: str, graph: Graph) -> list[Signature]:
    """The signatures that a text says of a graph.

    Raises:
        FormatError: They are damaged, or name what is no input or output.
    """
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    outputs = {tensor.name: tensor for tensor in graph.outputs}
    try:
        return [
            Signature(
                str(said["key"]),
                graph,
                _tensors(said["inputs"], inputs),
                _tensors(said["outputs"], outputs),
            )
            for said in json.loads(text)
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError("a signature is damaged", where=SIGNATURES, why=str(error)) from None


def _tensors(said: dict[str, str], known: dict[str, Tensor]) -> dict[str, Tensor]:
    return {str(name): known[tensor] for name, tensor in said.items()}
