"""How files store where the pixels of a resized image lie: as two flags."""

from __future__ import annotations

from circlet.errors import FormatError
from circlet.formats.options.part import Part
from circlet.ir import Op
from circlet.ops.resize import ResizeAttrs

_FLAGS = ("align_corners", "half_pixel_centers")
_MEANINGS: dict[tuple[object, object], str] = {
    (False, False): "asymmetric",
    (False, True): "half_pixel",
    (True, False): "align_corners",
    (True, True): "half_pixel_align_corners",
}
_STORED = {meaning: flags for flags, meaning in _MEANINGS.items()}


def _encode(op: Op) -> dict[str, object]:
    meaning = op.attributes(ResizeAttrs).coordinate_transformation
    if meaning not in _STORED:
        raise FormatError(
            "where the pixels of a resized image lie cannot be stored",
            where=f"{op.name} ({op.label})",
            why=f"files know {', '.join(_STORED)}, not {meaning}",
            fix="resize by one of these",
        )
    return dict(zip(_FLAGS, _STORED[meaning], strict=True))


COORDINATES = Part(
    "coordinate_transformation",
    _FLAGS,
    lambda fields: _MEANINGS[fields["align_corners"], fields["half_pixel_centers"]],
    _encode,
)
