"""What the TFLite schema (file identifier TFL3) has beyond the shared tables."""

from __future__ import annotations

DELTA = """
extend BlockwiseQuantization block_shape:[int32]
extend Tensor external_buffer:uint32
extend FullyConnectedOptions quant_spec:[uint8]
extend SubGraph debug_metadata_index:int32=-1
extend Model external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
MultiAxisQuantization scales:int32 zero_points:int32 block_size:int32 quantized_dimensions:[int32]
ExternalBufferGroup name:string
ExternalBuffer id:uint32 group:uint32 offset:uint64 length:uint64 packing:string
extend TensorType:int8 INT2=19 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2
extend QuantizationDetails:uint8 BlockwiseQuantization=2 MultiAxisQuantization
"""
