"""What a model file says of the network to people: signatures, labels, how pictures are mapped.

It is found where a model is compiled, and goes with the artifact as plain data, so that neither a
cached start nor an artifact needs the model.
"""

from __future__ import annotations

from circlet.formats.pixel_evidence import pixel_mapping
from circlet.formats.pixels import picture_layout
from circlet.formats.score_evidence import gives_scores
from circlet.formats.tflite_metadata import ENTRY, GraphFacts, TensorFacts, read_graph_facts
from circlet.ir import Graph, Model, Tensor

_MOST_SIGNATURES = 64
_MOST_LABEL_BYTES = 1 << 20


def graph_number(model: Model, signature: str) -> int:
    """The position in the file of the graph that runs, the first where there is no such key."""
    found = next((s.graph for s in model.signatures if s.key == signature), None)
    return next((i for i, graph in enumerate(model.graphs) if graph is found), 0)


def about(model: Model, signature: str = "", number: int = 0) -> dict[str, object]:
    """Plain data on the main graph, which was graph `number` of the file.

    "signature" is the key of the entry point, the one given or the first of the main graph's;
    "inputs" and "outputs" hold what is known of each, in order; "warnings" what cannot be read.
    """
    graph, facts = model.main, GraphFacts()
    if ENTRY in model.metadata:
        facts = read_graph_facts(model.metadata[ENTRY], model.associated_files, number)
    own = [s.key for s in model.signatures if s.graph is graph]
    warnings = [*filter(None, [model.associated_files_problem]), *facts.warnings]
    return {
        "signature": signature or next(iter(own), ""),
        "signatures": [s.key for s in model.signatures[:_MOST_SIGNATURES]],
        "inputs": [_input(graph, t, fact) for t, fact in _paired(graph.inputs, facts.inputs)],
        "outputs": [_output(graph, t, fact) for t, fact in _paired(graph.outputs, facts.outputs)],
        "warnings": warnings,
    }


def _paired(
    tensors: list[Tensor], facts: tuple[TensorFacts, ...]
) -> list[tuple[Tensor, TensorFacts]]:
    """Tensors with what is said of them; nothing where it is said of another count."""
    said = facts if len(facts) == len(tensors) else (TensorFacts(),) * len(tensors)
    return list(zip(tensors, said, strict=True))


def _input(graph: Graph, tensor: Tensor, facts: TensorFacts) -> dict[str, object]:
    found: dict[str, object] = {}
    if facts.name:
        found["name"] = facts.name
    if facts.is_audio:
        found["sample_rate"] = facts.sample_rate
    if tensor.dtype.has_numpy and picture_layout(tensor.static_shape):
        found["pixels"] = pixel_mapping(graph, tensor, facts).as_json()
    return found


def _output(graph: Graph, tensor: Tensor, facts: TensorFacts) -> dict[str, object]:
    found: dict[str, object] = {"scores": gives_scores(graph, tensor)}
    if facts.name:
        found["name"] = facts.name
    if facts.threshold is not None:
        found["threshold"] = facts.threshold
    if facts.labels and sum(map(len, facts.labels)) <= _MOST_LABEL_BYTES:
        found["labels"] = list(facts.labels)
        found["labels_file"] = facts.labels_file
    return found
