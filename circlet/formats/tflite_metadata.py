"""What TFLite metadata says of a network's inputs and outputs.

The metadata is a flatbuffer of its own (TFLITE_METADATA among a model's metadata); the files that
it names are packed behind the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from circlet.errors import CircletError, FormatError
from circlet.formats.flatbuffer import Reader, Table
from circlet.formats.schema.metadata import IDENTIFIER, metadata_schema
from circlet.limits import DEFAULT_LIMITS, Limits

ENTRY = "TFLITE_METADATA"
_AXIS_LABELS, _VALUE_LABELS = 2, 3
_MOST_CHANNELS = 4


@dataclass(frozen=True)
class TensorFacts:
    """What is said of one input or output; what is not said is empty.

    Attributes:
        name, description: Free text.
        mean, std: How pixel values (or samples) become the input's numbers: (x - mean) / std, one
            number each or one for each channel.
        threshold: The score below which a result does not count, None where not said.
        labels: What its classes are called.
        labels_file: The packed file that they stand in.
        is_audio: Whether it is sound, of `sample_rate` samples per second.
    """

    name: str = ""
    description: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    threshold: float | None = None
    labels: tuple[str, ...] = ()
    labels_file: str = ""
    is_audio: bool = False
    sample_rate: int = 0


@dataclass(frozen=True)
class GraphFacts:
    """What is said of one graph: of its inputs and outputs by position; and what is amiss."""

    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    warnings: tuple[str, ...] = ()


def read_graph_facts(
    blob: np.ndarray,
    files: Mapping[str, bytes],
    graph: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> GraphFacts:
    """What metadata says of a graph; damaged metadata says nothing but a warning.

    Args:
        blob: The bytes of the metadata's flatbuffer.
        files: Contents of the packed files by name.
        graph: The graph's position in the model.
        limits: Bounds on reading.
    """
    try:
        return _graph_facts(blob, files, graph, limits)
    except CircletError as error:
        reason = ": ".join(filter(None, (error.what, error.where)))
        return GraphFacts(warnings=(f"the model's metadata cannot be read: {reason}",))


def _graph_facts(
    blob: np.ndarray, files: Mapping[str, bytes], graph: int, limits: Limits
) -> GraphFacts:
    data = memoryview(blob.tobytes())
    if bytes(data[4:8]) != IDENTIFIER:
        raise FormatError("it does not begin as metadata does", why=repr(bytes(data[4:8])))
    root = Reader(data, metadata_schema(), limits).root("ModelMetadata")
    for index, table in enumerate(root.tables("subgraph_metadata")):
        if index == graph:
            warnings: list[str] = []
            inputs = [_tensor(t, files, warnings) for t in table.tables("input_tensor_metadata")]
            outputs = [_tensor(t, files, warnings) for t in table.tables("output_tensor_metadata")]
            return GraphFacts(tuple(inputs), tuple(outputs), tuple(warnings))
    return GraphFacts()


def _tensor(table: Table, files: Mapping[str, bytes], warnings: list[str]) -> TensorFacts:
    mean, std, threshold = _process(table)
    labels, labels_file = _labels(table, files, warnings)
    content = table.table("content")
    properties = content.union("content_properties") if content else None
    is_audio = properties is not None and properties.spec.name == "AudioProperties"
    rate = properties.integer("sample_rate") if properties is not None and is_audio else 0
    return TensorFacts(
        name=table.text("name"),
        description=table.text("description"),
        mean=mean,
        std=std,
        threshold=threshold,
        labels=labels,
        labels_file=labels_file,
        is_audio=is_audio,
        sample_rate=rate,
    )


def _process(table: Table) -> tuple[tuple[float, ...], tuple[float, ...], float | None]:
    """Mean, deviation and threshold of the process units; what makes no sense is left out."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    threshold = None
    for options in _options(table):
        if options.spec.name == "NormalizationOptions":
            means, stds = options.array("mean"), options.array("std")
            if _is_normalisation(means, stds):
                mean, std = tuple(map(float, means)), tuple(map(float, stds))
        elif options.spec.name == "ScoreThresholdingOptions":
            given = float(options.scalar("global_score_threshold"))
            threshold = given if np.isfinite(given) else None
    return mean, std, threshold


def _options(table: Table) -> Iterator[Table]:
    for unit in table.tables("process_units"):
        options = unit.union("options")
        if options is not None:
            yield options


def _is_normalisation(mean: np.ndarray, std: np.ndarray) -> bool:
    has_sizes = 0 < len(mean) <= _MOST_CHANNELS and 0 < len(std) <= _MOST_CHANNELS
    return has_sizes and bool(
        np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()
    )


def _labels(
    table: Table, files: Mapping[str, bytes], warnings: list[str]
) -> tuple[tuple[str, ...], str]:
    """The first file of labels that is there, one without a language before others."""
    named = [
        (bool(file.text("locale")), file.text("name"))
        for file in table.tables("associated_files")
        if file.integer("type") in (_AXIS_LABELS, _VALUE_LABELS)
    ]
    for _, name in sorted(named, key=lambda entry: entry[0]):
        if name not in files:
            warnings.append(f"the file of labels {name!r} is not packed with the model")
            continue
        try:
            return tuple(files[name].decode("utf-8-sig").splitlines()), name
        except UnicodeDecodeError:
            warnings.append(f"the packed file of labels {name!r} is not UTF-8")
    return (), ""
