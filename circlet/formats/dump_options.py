"""The option line of an operator in a dump: ONE's labels, or field names where it has none."""

from __future__ import annotations

from circlet.errors import FormatError
from circlet.formats.flatbuffer import Table, Value
from circlet.formats.flexbuffer import Value as OptionValue
from circlet.formats.flexbuffer import flexbuffer

_ACTIVATION = {"fused_activation_function": "Activation"}
_STRIDES = {"padding": "Padding", "stride_w": "Stride.W", "stride_h": "Stride.H"}
_DILATION = {"dilation_w_factor": "Dilation.W", "dilation_h_factor": "Dilation.H"}
# Labels in the order in which they are printed; fields of these tables without one are left out.
LABELS: dict[str, dict[str, str]] = {
    "AddOptions": _ACTIVATION,
    "ArgMaxOptions": {"output_type": "OutputType"},
    "ArgMinOptions": {"output_type": "OutputType"},
    "ConcatenationOptions": _ACTIVATION | {"axis": "Axis"},
    "Conv2DOptions": _STRIDES | _DILATION | _ACTIVATION,
    "DepthwiseConv2DOptions": _STRIDES
    | {"depth_multiplier": "DepthMultiplier"}
    | _DILATION
    | _ACTIVATION,
    "DivOptions": _ACTIVATION,
    "FullyConnectedOptions": {"weights_format": "WeightFormat"} | _ACTIVATION,
    "GatherOptions": {"axis": "Axis"},
    "MulOptions": _ACTIVATION,
    "OneHotOptions": {"axis": "Axis"},
    "PackOptions": {"values_count": "ValuesCount", "axis": "Axis"},
    "Pool2DOptions": _STRIDES
    | {"filter_width": "Filter.W", "filter_height": "Filter.H"}
    | _ACTIVATION,
    "ReshapeOptions": {"new_shape": "NewShape"},
    "SoftmaxOptions": {"beta": "Beta"},
    "SpaceToDepthOptions": {"block_size": "BlockSize"},
    "SqueezeOptions": {"squeeze_dims": "SqueezeDims"},
    "SubOptions": _ACTIVATION,
}
_NUMBERED = {"padding"}


def option_line(op: Table) -> str:
    """The options of an operator on one line, "" where there are none."""
    custom = op.blob("custom_options")
    if custom.size:
        return _custom(custom.tobytes())
    options = op.union("builtin_options") or op.union("builtin_options2")
    if options is None:
        return ""
    labels = LABELS.get(options.spec.name) or {name: name for name in options.spec.fields}
    return " ".join(f"{label}({_shown(options, name)})" for name, label in labels.items())


def _shown(options: Table, name: str) -> str:
    if name in _NUMBERED:
        return str(options.integer(name))
    return _text(options.value(options.spec.fields[name]))


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else str(value)


def _custom(data: bytes) -> str:
    try:
        values = flexbuffer(data)
    except FormatError:
        return f"Unknown custom option format ({len(data)} bytes)"
    if not isinstance(values, dict):
        return repr(values)
    return " ".join(f"{name}({_shown_option(value)})" for name, value in values.items())


def _shown_option(value: OptionValue) -> str:
    return value if isinstance(value, str) else repr(value)
