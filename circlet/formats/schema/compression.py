"""The schema of TFLite Micro's metadata of compressed tensors; `spec` describes the notation."""

from __future__ import annotations

from functools import cache

from circlet.formats.schema.spec import Schema, parse

_TABLES = """
Metadata schema_version:uint32=1 subgraphs:[Subgraph]
Subgraph lut_tensors:[LutTensor]
LutTensor tensor:int32 value_buffer:uint32 index_bitwidth:uint8
"""


@cache
def compression_schema() -> Schema:
    """The schema of the flatbuffer that a model's metadata entry COMPRESSION_METADATA holds."""
    return parse("compression", b"", 0, (_TABLES,))
