"""The interface that the package onnx asks of backends, over sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx.backend.base import Backend, BackendRep, namedtupledict

from circlet.errors import InputError
from circlet.runtime.session import Session


class CircletBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: object) -> Any:
        """The outputs, as a named tuple, of arrays in the order of the model's inputs.

        A mapping gives inputs by their names; a single array stands for the only input.
        """
        given = self._arrays(inputs)
        shapes = {value.name: given[value.name].shape for value in self.session.inputs}
        session = self.session
        if any(shapes[value.name] != value.shape for value in session.inputs):
            session = self.session = session.resized(shapes)
        results = session.run(given)
        names = [value.name for value in session.outputs]
        return namedtupledict("Outputs", names)(*(results[name] for name in names))

    def _arrays(self, inputs: Any) -> dict[str, np.ndarray]:
        names = [value.name for value in self.session.inputs]
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            listed = list(inputs) if isinstance(inputs, Sequence) else [inputs]
            given = dict(zip(names, listed, strict=False))
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError("an input is missing", where=missing[0])
        return {name: np.asarray(given[name]) for name in names}


class CircletBackend(Backend):
    """Runs models on the CPU: natively, and in numpy what has no native code.

    Options of `prepare` are those of `circlet.Session`, such as `backends` and `threads`.
    """

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> CircletBackendRep:
        """A model that is ready to run; raises as `Session`."""
        super().prepare(model, device, **kwargs)
        return CircletBackendRep(Session(model.SerializeToString(), **kwargs))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> Any:
        """The outputs of one node of the newest operator set."""
        from onnx import helper

        arrays = [np.asarray(array) for array in inputs]
        ends = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        starts = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip([n for n in node.input if n], arrays, strict=True)
        ]
        model = helper.make_model(helper.make_graph([node], "node", starts, ends))
        return CircletBackendRep(Session(model.SerializeToString(), **kwargs)).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the CPU."""
        return device.upper().startswith("CPU")


prepare = CircletBackend.prepare
run_model = CircletBackend.run_model
run_node = CircletBackend.run_node
supports_device = CircletBackend.supports_device
