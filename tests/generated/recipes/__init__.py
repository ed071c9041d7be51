"""Which recipe makes the operands of which kind."""

from __future__ import annotations

from circlet.ir import DType
from circlet.ops import OpDef
from tests.generated.case import Case, Form
from tests.generated.draw import Draw
from tests.generated.recipes.axes import AXES
from tests.generated.recipes.common import Recipe
from tests.generated.recipes.elementwise import ELEMENTWISE, shifted, spread
from tests.generated.recipes.indexing import INDEXING
from tests.generated.recipes.movement import MOVEMENT
from tests.generated.recipes.windows import WINDOWS

_TABLE: dict[str, Recipe] = {**AXES, **ELEMENTWISE, **INDEXING, **MOVEMENT, **WINDOWS}
_ANY = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL", "FLOAT32", "UINT32")
# Types whose values no array of numbers holds.
_NOT_NUMBERS = ("STRING", "RESOURCE", "VARIANT")


def recipe_of(record: OpDef) -> Recipe | None:
    """The recipe of a kind; element-wise ones need no entry of their own."""
    found = _TABLE.get(record.kind)
    if found is None and record.scalar is not None and not record.kind.startswith("CUSTOM:"):
        return shifted if "SHIFT" in record.kind else spread
    return found


def table_kinds() -> frozenset[str]:
    """The kinds that have an entry of their own."""
    return frozenset(_TABLE)


def forms_of(record: OpDef) -> list[str]:
    """The combinations of types of a record that cases can be made of."""
    return [form for form in record.dtypes if not any(name in form for name in _NOT_NUMBERS)]


def make_case(record: OpDef, seed: int, number: int) -> Case:
    """Case `number` of a kind; consecutive numbers go through all forms of the record."""
    recipe = recipe_of(record)
    assert recipe is not None
    draw = Draw(seed, record.kind, number)
    forms = forms_of(record)
    form = Form.of(forms[number % len(forms)], DType(draw.pick(_ANY)))
    name = f"{record.kind.rpartition(':')[2]}_{seed}_{number}"
    return Case(name, record, form, recipe(draw, record, form))
