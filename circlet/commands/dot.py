"""A graph in the language of GraphViz, as ONE draws graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from circlet.ir import Graph, Op, Tensor

_FIRST_COLOUR, _COLOURS = 2, 7


def dot_of(graph: Graph, places: Mapping[Op, str], *, with_constants: bool = False) -> str:
    """The text of a graph.

    Operands are ellipses, those that callers give and get doubled circles; operations are boxes,
    of one colour for each backend.

    Args:
        places: The backend of each operation; empty before the graph is lowered.
        with_constants: Whether constants are drawn.
    """
    return "\n".join(("digraph D {", *_lines(graph, places, with_constants), "}")) + "\n"


def _lines(graph: Graph, places: Mapping[Op, str], with_constants: bool) -> Iterator[str]:
    numbers = {t: n for n, t in enumerate(dict.fromkeys((*graph.inputs, *graph.used_tensors())))}
    ends = {*graph.inputs, *graph.outputs}
    makers = graph.producers()
    names = sorted(set(places.values()))
    drawn = [t for t in numbers if with_constants or not t.is_constant or t in ends]
    for tensor in drawn:
        place = places.get(makers[tensor], "") if tensor in makers else ""
        shape = "doublecircle" if tensor in ends else "ellipse"
        yield _node(f"operand{numbers[tensor]}", str(numbers[tensor]), place, names, shape)
    for index, op in enumerate(graph.ops):
        label = f"{index} : {op.label}"
        yield _node(f"operation{index}", label, places.get(op, ""), names, "rect")
    yield from _edges(graph, {tensor: numbers[tensor] for tensor in drawn})


def _edges(graph: Graph, drawn: Mapping[Tensor, int]) -> Iterator[str]:
    for index, op in enumerate(graph.ops):
        for tensor in op.inputs:
            if tensor is not None and tensor in drawn:
                yield f"  operand{drawn[tensor]} -> operation{index};"
        for tensor in op.outputs:
            if tensor in drawn:
                yield f"  operation{index} -> operand{drawn[tensor]};"


def _node(name: str, label: str, place: str, names: list[str], shape: str) -> str:
    colour = "white"
    if place:
        colour = str(_FIRST_COLOUR + names.index(place) % _COLOURS)
        label += rf"\n[{place}]"
    label = label.replace('"', r"\"")
    facts = {
        "colorscheme": "pastel18" if shape == "rect" else "set18",
        "fillcolor": colour,
        "label": label,
        "shape": shape,
        "style": "filled",
    }
    text = " ".join(f'{key}="{fact}"' for key, fact in facts.items())
    return f"  {name}[{text}];"
