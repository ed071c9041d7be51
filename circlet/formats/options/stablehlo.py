"""How files spell what StableHLO kinds say in words."""

from __future__ import annotations

from circlet.formats.options.part import Part
from circlet.ir import Op


def _prefixed(attribute: str, prefix: str) -> Part:
    """A word that files write behind a prefix."""

    def encode(op: Op) -> dict[str, object]:
        return {attribute: f"{prefix}{vars(op.attrs)[attribute]}"}

    return Part(
        attribute,
        (attribute,),
        lambda fields: str(fields[attribute]).removeprefix(prefix),
        encode,
    )


COMPARISON = (
    _prefixed("comparison_direction", "STABLEHLO_COMPARISON_DIRECTION_"),
    _prefixed("compare_type", "STABLEHLO_COMPARISON_TYPE_"),
)
