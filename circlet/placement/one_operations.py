"""ONE's names of operations, and the kinds of operators that each stands for.

Settings name operations by their class; files of times name those of a class that holds many one by
one, as `Operation::name()` of its runtime does.
"""

from __future__ import annotations

KINDS: dict[str, tuple[str, ...]] = {
    "AddN": ("ADD_N",),
    "ArgMinMax": ("ARG_MAX", "ARG_MIN"),
    "Attention": ("ATTENTION",),
    "BCQFullyConnected": ("BCQ_FULLY_CONNECTED",),
    "BCQGather": ("BCQ_GATHER",),
    "BatchMatMul": ("BATCH_MATMUL", "CUSTOM:BatchMatMulV2"),
    "BatchToSpaceND": ("BATCH_TO_SPACE_ND",),
    "BinaryArithmetic": ("ADD", "SUB", "MUL", "DIV", "CUSTOM:AddV2"),
    "BroadcastTo": ("BROADCAST_TO", "CUSTOM:BroadcastTo"),
    "Comparison": ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    "Concat": ("CONCATENATION",),
    "Conv2D": ("CONV_2D",),
    "Custom": ("CUSTOM",),
    "DepthToSpace": ("DEPTH_TO_SPACE",),
    "DepthwiseConv2D": ("DEPTHWISE_CONV_2D",),
    "DetectionPostProcess": ("CUSTOM:TFLite_Detection_PostProcess",),
    "DynamicUpdateSlice": ("DYNAMIC_UPDATE_SLICE",),
    "Einsum": ("CUSTOM:Einsum",),
    "ElementwiseActivation": (
        *("ELU", "LEAKY_RELU", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "TANH"),
        *("GELU", "HARD_SWISH"),
    ),
    "ElementwiseBinary": (
        *("FLOOR_DIV", "FLOOR_MOD", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM"),
    ),
    "ElementwiseUnary": (
        *("ABS", "CAST", "COS", "DEQUANTIZE", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG"),
        *("QUANTIZE", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "ZEROS_LIKE", "CUSTOM:Erf"),
    ),
    "EmbeddingLookup": ("EMBEDDING_LOOKUP",),
    "ExpandDims": ("EXPAND_DIMS",),
    "Fill": ("FILL",),
    "FullyConnected": ("FULLY_CONNECTED",),
    "FusedBatchNorm": ("CUSTOM:FusedBatchNormV3",),
    "Gather": ("GATHER",),
    "HashtableLookup": ("HASHTABLE_LOOKUP",),
    "If": ("IF",),
    "InstanceNorm": ("INSTANCE_NORM",),
    "L2Normalization": ("L2_NORMALIZATION",),
    "LSTM": ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    "LocalResponseNormalization": ("LOCAL_RESPONSE_NORMALIZATION",),
    "LogSoftmax": ("LOG_SOFTMAX",),
    "MatrixBandPart": ("CUSTOM:MatrixBandPart",),
    "OneHot": ("ONE_HOT",),
    "PReLU": ("PRELU",),
    "Pack": ("PACK",),
    "Pad": ("PAD", "PADV2", "MIRROR_PAD"),
    "Pool2D": ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"),
    "Pow": ("POW",),
    "RNN": ("RNN",),
    "Range": ("RANGE",),
    "Rank": ("RANK",),
    "Reduce": (
        *("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"),
        "CUSTOM:All",
    ),
    "Reshape": ("RESHAPE",),
    "ResizeBilinear": ("RESIZE_BILINEAR",),
    "ResizeNearestNeighbor": ("RESIZE_NEAREST_NEIGHBOR",),
    "Reverse": ("REVERSE_V2",),
    "RmsNorm": ("RMS_NORM",),
    "RoPE": ("ROPE",),
    "Select": ("SELECT", "SELECT_V2"),
    "Shape": ("SHAPE",),
    "Slice": ("SLICE",),
    "Softmax": ("SOFTMAX",),
    "SpaceToBatchND": ("SPACE_TO_BATCH_ND",),
    "SpaceToDepth": ("SPACE_TO_DEPTH",),
    "Split": ("SPLIT",),
    "SplitV": ("SPLIT_V",),
    "SquaredDifference": ("SQUARED_DIFFERENCE",),
    "Squeeze": ("SQUEEZE",),
    "StatelessRandomUniform": ("CUSTOM:StatelessRandomUniform",),
    "StridedSlice": ("STRIDED_SLICE",),
    "Tile": ("TILE",),
    "TopKV2": ("TOPK_V2",),
    "Transpose": ("TRANSPOSE",),
    "TransposeConv": ("TRANSPOSE_CONV",),
    "Unpack": ("UNPACK",),
    "While": ("WHILE",),
}

# What ONE makes itself, or what no file that is read here holds: a knob for it is no mistake.
MADE_BY_ONE = frozenset(
    {"Bulk", "Call", "ConvertFp16ToFp32", "ConvertFp32ToFp16", "Loss", "Permute", "RunModel"}
)

_OWN_NAMES = {
    "ABS": "Abs",
    "ADD": "Add",
    "AVERAGE_POOL_2D": "AvgPool2D",
    "CAST": "Cast",
    "COS": "Cos",
    "DEQUANTIZE": "Dequantize",
    "DIV": "Div",
    "ELU": "ELU",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "FLOOR_DIV": "FloorDiv",
    "GELU": "GELU",
    "L2_POOL_2D": "L2Pool2D",
    "LEAKY_RELU": "LeakyRelu",
    "LOG": "Log",
    "LOGICAL_AND": "LogicalAnd",
    "LOGICAL_NOT": "LogicalNot",
    "LOGICAL_OR": "LogicalOr",
    "LOGISTIC": "Logistic",
    "MAXIMUM": "Max",
    "MAX_POOL_2D": "MaxPool2D",
    "MEAN": "ReduceMean",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "NEG": "Neg",
    "QUANTIZE": "Quantize",
    "REDUCE_ALL": "ReduceAll",
    "REDUCE_ANY": "ReduceAny",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "RELU": "ReLU",
    "RELU6": "ReLU",
    "RELU_N1_TO_1": "ReLU",
    "ROUND": "Round",
    "RSQRT": "RSqrt",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "SQUARE": "Squre",  # as ONE spells it
    "SUB": "Sub",
    "SUM": "ReduceSUM",  # as ONE spells it
    "TANH": "Tanh",
    "ZEROS_LIKE": "ZerosLike",
}
_CLASSES = {kind: name for name, kinds in KINDS.items() for kind in kinds}
_OF_MANY = frozenset(_CLASSES[kind] for kind in _OWN_NAMES)


def one_name(kind: str) -> str:
    """The name of an operator kind in files of times; "Custom" for what ONE has no operator for."""
    name = _CLASSES.get(kind, "Custom")
    if name in _OF_MANY or kind.startswith("CUSTOM"):
        return _OWN_NAMES.get(kind, "Custom")
    return name
