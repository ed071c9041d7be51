"""Which fields of options tables number graphs of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

# In the order in which `Op.regions` has them; a list of numbers comes last.
GRAPH_FIELDS: dict[str, tuple[str, ...]] = {
    "CallOnceOptions": ("init_subgraph_index",),
    "CallOptions": ("subgraph",),
    "IfOptions": ("then_subgraph_index", "else_subgraph_index"),
    "StableHLOCompositeOptions": ("decomposition_subgraph_index",),
    "StablehloCaseOptions": ("branch_subgraph_indices",),
    "StablehloReduceOptions": ("body_subgraph_index",),
    "StablehloReduceWindowOptions": ("body_subgraph_index",),
    "StablehloScatterOptions": ("update_computation_subgraph_index",),
    "StablehloSortOptions": ("comparator_subgraph_index",),
    "StablehloWhileOptions": ("cond_subgraph_index", "body_subgraph_index"),
    "WhileOptions": ("cond_subgraph_index", "body_subgraph_index"),
}


def graph_numbers(table: str, fields: Mapping[str, object]) -> Iterator[int]:
    """The numbers of graphs that fields of a table hold."""
    for name in GRAPH_FIELDS.get(table, ()):
        value = fields.get(name, ())
        if isinstance(value, int):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from value


def graph_fields(table: str, numbers: Sequence[int]) -> dict[str, object]:
    """The fields of a table that name graphs by these numbers."""
    names = GRAPH_FIELDS.get(table, ())
    if names == ("branch_subgraph_indices",):
        return {names[0]: list(numbers)}
    return dict(zip(names, numbers, strict=False))
