"""Small models of operators beyond the standard, run here and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import circlet

Array = np.ndarray
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node: its operands by position, computed or constant, "" where omitted.

    Attributes:
        expected: What the node gives, where ONNX Runtime has no kernel for it.
        outputs: Whether each result is read.
        result: The number of the type of results that ONNX Runtime cannot tell itself.
    """

    kind: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    outputs: Sequence[bool] = (True,)
    expected: Sequence[Array] | None = None
    domain: str = MICROSOFT
    tolerance: float = 1e-5
    result: int = 0

    def feeds(self, prefix: str = "") -> dict[str, Array]:
        """The computed operands by name."""
        given = enumerate(self.inputs)
        return {
            f"{prefix}i{at}": x for at, x in given if x is not None and at not in self.constants
        }


def model(cases: Sequence[Case], opset: int = 17, *, is_open: bool = False) -> bytes:
    """One file of independent nodes; sizes of inputs are open where asked for."""
    from onnx import ValueInfoProto, helper, numpy_helper

    nodes, inputs, outputs, stored = [], [], [], []
    for number, case in enumerate(cases):
        prefix = f"n{number}_" if len(cases) > 1 else ""
        names = ["" if x is None else f"{prefix}i{at}" for at, x in enumerate(case.inputs)]
        results = [f"{prefix}o{at}" if read else "" for at, read in enumerate(case.outputs)]
        nodes.append(
            helper.make_node(case.kind, names, results, domain=case.domain, **case.attributes)
        )
        for name, x in case.feeds(prefix).items():
            sizes = [f"{name}_{axis}" for axis in range(x.ndim)] if is_open else x.shape
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, sizes))
        fixed = [(at, case.inputs[at]) for at in case.constants]
        stored += [numpy_helper.from_array(x, names[at]) for at, x in fixed if x is not None]
        for name in filter(None, results):
            typed = helper.make_tensor_value_info(name, case.result, None)
            outputs.append(typed if case.result else ValueInfoProto(name=name))
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    sets = [("", opset), (MICROSOFT, 1), ("ai.onnx.ml", 3)]
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*pair) for pair in sets], ir_version=9
    )
    return bytes(made.SerializeToString())


def ours(data: bytes, feeds: Mapping[str, Array], backends: Sequence[str]) -> list[Array]:
    """The results of a session."""
    session = circlet.Session(data, backends=list(backends), cache=False)
    return list(session.run(dict(feeds)).values())


def theirs(data: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """ONNX Runtime's results, its graph left as it is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(x) for x in peer.run(None, dict(feeds))]


def wanted(case: Case) -> list[Array]:
    """What a case must give."""
    if case.expected is not None:
        return list(case.expected)
    return theirs(model([case]), case.feeds())


def close(made: Sequence[Array], expected: Sequence[Array], tolerance: float) -> None:
    """Equal types and sizes; integers equal, floats up to a share of the largest one."""
    assert len(made) == len(expected)
    for x, y in zip(made, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, x.shape, y.dtype, y.shape)
        if x.dtype.kind != "f":
            np.testing.assert_array_equal(x, y)
            continue
        largest = float(np.abs(y[np.isfinite(y)]).max(initial=1e-30))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * largest)


def check(case: Case, backends: Sequence[str] = ("reference",), *, is_open: bool = False) -> None:
    """Compare one case."""
    made = ours(model([case], is_open=is_open), case.feeds(), backends)
    close(made, wanted(case), case.tolerance)


def check_together(cases: Sequence[Case]) -> circlet.Session:
    """Compare cases as one model that is compiled once; gives the session."""
    feeds: dict[str, Array] = {}
    for number, case in enumerate(cases):
        feeds |= case.feeds(f"n{number}_")
    session = circlet.Session(model(cases), backends=["cpu", "reference"], cache=False)
    made = list(session.run(feeds).values())
    for case in cases:
        count = sum(case.outputs)
        close(made[:count], wanted(case), case.tolerance)
        del made[:count]
    return session
