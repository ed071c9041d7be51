"""What the Circle 0.10 schema (file identifier CIR0) has beyond the shared tables."""

from __future__ import annotations

DELTA = """
extend Tensor compression_type:CompressionType
extend SubGraph data_format:DataFormat debug_metadata_index:int32=-1
BCQFullyConnectedOptions weights_hidden_size:int32
    fused_activation_function:ActivationFunctionType
BCQGatherOptions input_hidden_size:int32 axis:int32
GRUOptions fused_activation_function:ActivationFunctionType return_sequences:bool time_major:bool
InstanceNormOptions epsilon:float32 fused_activation_function:ActivationFunctionType
MXQuantization axis:int32
RmsNormOptions epsilon:float32
RoPEOptions mode:RoPEMode
RunModelOptions location:string signature:string
extend BuiltinOperator:int32 ATTENTION=-9 RUN_MODEL ROPE RMS_NORM GRU BCQ_GATHER BCQ_FULLY_CONNECTED
    INSTANCE_NORM
extend BuiltinOptions:uint8 AttentionOptions=247 RunModelOptions RoPEOptions RmsNormOptions
    GRUOptions BCQGatherOptions BCQFullyConnectedOptions InstanceNormOptions
CompressionType:int8 NONE HUFFMAN
DataFormat:int8 CHANNELS_LAST CHANNELS_FIRST
extend FullyConnectedOptionsWeightsFormat:int8 SHUFFLED16x1FLOAT32=127
extend QuantizationDetails:uint8 MXQuantization=2 BlockwiseQuantization
RoPEMode:int32 GPT_NEOX GPT_J
extend TensorType:int8 MXINT8=-7 MXFP4 GGML_Q8_1 GGML_Q8_0 GGML_Q4_1 GGML_Q4_0 UINT4
"""

EMPTY_OPTIONS = """
AttentionOptions
"""
