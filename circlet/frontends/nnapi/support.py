"""Which operations of a network some devices run, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import UnsupportedOpsError
from circlet.formats.nnapi.description import Description
from circlet.formats.nnapi.lower import lower
from circlet.options import DEFAULT_BACKENDS, Options


def reasons_against(description: Description, names: Sequence[str]) -> list[str]:
    """For each operation why no backend of some names runs it, "" where one does.

    Raises:
        CircletError: The network cannot be planned for a reason that is no operation's.
    """
    reasons = [""] * len(description.operations)
    while True:
        rest = [index for index, reason in enumerate(reasons) if not reason]
        if not rest:
            return reasons
        part = _part(description, rest)
        try:
            rows = _placed(part, names)
        except UnsupportedOpsError as error:
            found = _named(part, error)
            if not found:
                raise
            for index, reason in found.items():
                reasons[rest[index]] = reason
            continue
        for source, reason in rows:
            if source < len(rest):
                reasons[rest[source]] = reasons[rest[source]] or reason
        return reasons


def _placed(part: Description, names: Sequence[str]) -> list[tuple[int, str]]:
    """Operations that some operator of theirs keeps from all of the backends, and the reason."""
    options = Options(
        backends=tuple(dict.fromkeys([*names, DEFAULT_BACKENDS[-1]])), level="O0", cache=False
    )
    planned = plan(Template.read(lower(part), options), options)
    return [
        (source.id, "; ".join(reason for _, reason in row.refused))
        for row in planned.placed
        if row.backend not in names
        for source in row.op.origin.sources
    ]


def _named(part: Description, error: UnsupportedOpsError) -> dict[int, str]:
    """The operations that an error names, as lowering names them."""
    indices = {f"{each.kind}_{index}": index for index, each in enumerate(part.operations)}
    return {indices[e.source]: e.reason for e in error.entries if e.source in indices}


def _part(description: Description, kept: Sequence[int]) -> Description:
    """Some operations of a network; what the others compute is given."""
    if len(kept) == len(description.operations):
        return description
    operations = [description.operations[index] for index in kept]
    made = {operand for each in operations for operand in each.outputs}
    read = {operand for each in operations for operand in each.inputs}
    lost = {o for each in description.operations for o in each.outputs} - made
    inputs = (*(i for i in description.inputs if i in read), *sorted(lost & read))
    outputs = tuple(sorted(made - read)) or tuple(sorted(made))
    return replace(description, operations=operations, inputs=inputs, outputs=outputs)
