"""Attributes of ops with windows from the words of TFLite's options, in which cases are noted."""

from __future__ import annotations

from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs


def padding_of(word: str, rank: int = 2) -> Padding:
    """The padding that SAME or VALID means."""
    assert word in ("SAME", "VALID")
    return SAME_UPPER if word == "SAME" else ((0, 0),) * rank


def conv2d_attrs(
    padding: str = "SAME",
    stride_w: int = 1,
    stride_h: int = 1,
    activation: str = "NONE",
    dilation_w: int = 1,
    dilation_h: int = 1,
    quantized_bias_type: str = "FLOAT32",
) -> Conv2DAttrs:
    """Attributes of a CONV_2D."""
    return Conv2DAttrs(
        padding_of(padding),
        (stride_h, stride_w),
        (dilation_h, dilation_w),
        activation=activation,
        quantized_bias_type=quantized_bias_type,
    )


def depthwise_attrs(
    padding: str = "SAME",
    stride_w: int = 1,
    stride_h: int = 1,
    multiplier: int = 0,
    activation: str = "NONE",
    dilation_w: int = 1,
    dilation_h: int = 1,
) -> DepthwiseConv2DAttrs:
    """Attributes of a DEPTHWISE_CONV_2D."""
    strides, dilations = (stride_h, stride_w), (dilation_h, dilation_w)
    return DepthwiseConv2DAttrs(padding_of(padding), strides, dilations, multiplier, activation)


def transpose_conv_attrs(
    padding: str = "SAME",
    stride_w: int = 1,
    stride_h: int = 1,
    activation: str = "NONE",
    quantized_bias_type: str = "FLOAT32",
) -> TransposeConvAttrs:
    """Attributes of a TRANSPOSE_CONV."""
    strides = (stride_h, stride_w)
    return TransposeConvAttrs(padding_of(padding), strides, activation, quantized_bias_type)


def pool_attrs(
    padding: str = "SAME",
    stride_w: int = 1,
    stride_h: int = 1,
    width: int = 1,
    height: int = 1,
    activation: str = "NONE",
) -> Pool2DAttrs:
    """Attributes of a pooling operator."""
    return Pool2DAttrs(padding_of(padding), (stride_h, stride_w), (height, width), activation)


def conv3d_attrs(
    padding: str = "SAME",
    stride_d: int = 1,
    stride_w: int = 1,
    stride_h: int = 1,
    activation: str = "NONE",
    dilation_d: int = 1,
) -> Conv3DAttrs:
    """Attributes of a CONV_3D or CONV_3D_TRANSPOSE."""
    strides, dilations = (stride_d, stride_h, stride_w), (dilation_d, 1, 1)
    return Conv3DAttrs(padding_of(padding, 3), strides, dilations, activation)
