"""What a session says of its network: `NodeArg` and `ModelMetadata`."""

from __future__ import annotations

from collections.abc import Mapping

from circlet.formats.onnx.header import Header, Size, ValueInfo


class NodeArg:
    """An input or an output.

    Attributes:
        name: Its name.
        type: Its type, such as "tensor(float)".
        shape: Sizes: numbers, names of sizes, or None for those without either.
    """

    def __init__(self, info: ValueInfo) -> None:
        self.name, self.type = info.name, info.type
        self.shape: list[Size] = list(info.shape or ())

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class ModelMetadata:
    """What the file says of the network to people.

    Attributes:
        custom_metadata_map: Texts by names that its makers chose.
        description, graph_description: What it is.
        domain, graph_name, producer_name: Names.
        version: The network's own version.
    """

    def __init__(self, header: Header) -> None:
        self.custom_metadata_map: Mapping[str, str] = dict(header.metadata)
        self.description, self.graph_description = header.description, header.graph_description
        self.domain, self.graph_name = header.domain, header.graph_name
        self.producer_name, self.version = header.producer, header.version
