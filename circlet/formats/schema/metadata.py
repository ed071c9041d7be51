"""TFLite's metadata schema (identifier M001); the notation is described in `spec`."""

from __future__ import annotations

from functools import cache

from circlet.formats.schema.spec import Schema, parse

IDENTIFIER = b"M001"

_TABLES = """
ModelMetadata name:string description:string version:string subgraph_metadata:[SubGraphMetadata]
    author:string license:string associated_files:[AssociatedFile] min_parser_version:string
SubGraphMetadata name:string description:string input_tensor_metadata:[TensorMetadata]
    output_tensor_metadata:[TensorMetadata] associated_files:[AssociatedFile]
    input_process_units:[ProcessUnit] output_process_units:[ProcessUnit]
    input_tensor_groups:[TensorGroup] output_tensor_groups:[TensorGroup]
    custom_metadata:[CustomMetadata]
TensorMetadata name:string description:string dimension_names:[string] content:Content
    process_units:[ProcessUnit] stats:Stats associated_files:[AssociatedFile]
AssociatedFile name:string description:string type:int8 locale:string version:string
Content content_properties:ContentProperties range:ValueRange
FeatureProperties none:int8
ImageProperties color_space:int8 default_size:ImageSize
ImageSize width:uint32 height:uint32
BoundingBoxProperties index:[uint32] type:int8 coordinate_type:int8
AudioProperties sample_rate:uint32 channels:uint32
ValueRange min:int32 max:int32
ProcessUnit options:ProcessUnitOptions
NormalizationOptions mean:[float32] std:[float32]
ScoreCalibrationOptions score_transformation:int8 default_score:float32
ScoreThresholdingOptions global_score_threshold:float32
BertTokenizerOptions vocab_file:[AssociatedFile]
SentencePieceTokenizerOptions sentencePiece_model:[AssociatedFile] vocab_file:[AssociatedFile]
RegexTokenizerOptions delim_regex_pattern:string vocab_file:[AssociatedFile]
Stats max:[float32] min:[float32]
TensorGroup name:string tensor_names:[string]
CustomMetadata name:string data:[uint8]
ContentProperties:uint8 NONE FeatureProperties ImageProperties BoundingBoxProperties
    AudioProperties
ProcessUnitOptions:uint8 NONE NormalizationOptions ScoreCalibrationOptions
    ScoreThresholdingOptions BertTokenizerOptions SentencePieceTokenizerOptions
    RegexTokenizerOptions
"""


@cache
def metadata_schema() -> Schema:
    """The schema of the flatbuffer that a model's metadata entry TFLITE_METADATA holds."""
    return parse("metadata", IDENTIFIER, 0, (_TABLES,))
