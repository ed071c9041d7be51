"""`CompiledModel`: LiteRT's newer Python interface, with Circlet behind it.

A script written for `ai_edge_litert.compiled_model` runs with only its import changed. Errors are
coded `CircletError`s that are also the RuntimeError or ValueError that LiteRT raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from circlet.errors import CircletError, InputError
from circlet.formats import load
from circlet.frontends.builtin_errors import also
from circlet.frontends.compiled_model_options import (
    Environment,
    HardwareAccelerator,
    Options,
    resolved,
)
from circlet.frontends.compiled_signature import (
    CompiledSignature,
    Details,
    refused,
    signatures_of,
)
from circlet.frontends.subgraph import checked_index
from circlet.frontends.tensor_buffer import TensorBuffer
from circlet.stored import stored

_HOST_MEMORY = 1


class CompiledModel:
    """A network, compiled and ready to run on `TensorBuffer`s.

    `from_file` and `from_buffer` make one. A network without signatures has one of the key
    "<placeholder signature>", whose names are those of its tensors.
    """

    def __init__(self, signatures: Sequence[CompiledSignature], environment: Environment) -> None:
        self._open: Sequence[CompiledSignature] | None = signatures
        self._environment = environment

    @classmethod
    def from_file(
        cls,
        model_path: str | os.PathLike[str],
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> CompiledModel:
        """The model of a .tflite or .circle file.

        Raises:
            RuntimeError: It cannot be read or compiled, or the CPU must not be used.
            ValueError: Both kinds of options are given, or the environment is closed.
            TypeError: An argument is something else.
        """
        if not isinstance(model_path, str | os.PathLike):
            raise also(InputError.mistyped("model_path", model_path, "a path"), TypeError)
        return cls._of(model_path, "file", hardware_accel, environment, options)

    @classmethod
    def from_buffer(
        cls,
        model_data: bytes,
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> CompiledModel:
        """The model of the bytes of such a file; raises as `from_file`."""
        if not isinstance(model_data, bytes | bytearray | memoryview):
            raise also(InputError.mistyped("model_data", model_data, "bytes"), TypeError)
        return cls._of(bytes(model_data), "buffer", hardware_accel, environment, options)

    @classmethod
    def _of(
        cls,
        source: str | os.PathLike[str] | bytes,
        what: str,
        accelerator: HardwareAccelerator | None,
        environment: Environment | None,
        options: Options | None,
    ) -> CompiledModel:
        environment = environment or Environment.create()
        environment.capsule  # noqa: B018 - refuses a closed one
        threads = resolved(options, accelerator).cpu_options.num_threads
        try:
            file = stored(source)
            model = load(file)
        except CircletError as error:
            raise also(error, RuntimeError, f"Failed to load model from {what}") from error
        count = threads if threads > 0 else None
        signatures = [CompiledSignature(entry, file, count) for entry in signatures_of(model)]
        signatures[0].session()
        return cls(signatures, environment)

    @property
    def environment(self) -> Environment:
        """The environment that it was made with."""
        return self._environment

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of inputs and outputs of each signature, by its key."""
        return {
            entry.key: {"inputs": list(entry.inputs), "outputs": list(entry.outputs)}
            for entry in self._signatures
        }

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """Key, inputs and outputs of a signature; RuntimeError where there is none."""
        entry = self._at(index)
        return {"key": entry.key, "inputs": list(entry.inputs), "outputs": list(entry.outputs)}

    def get_num_signatures(self) -> int:
        """How many signatures there are."""
        return len(self._signatures)

    def get_signature_index(self, key: str) -> int:
        """The index of a signature, -1 where there is none of that key."""
        keys = [entry.key for entry in self._signatures]
        return keys.index(key) if key in keys else -1

    def get_input_tensor_details(self, signature_key: str) -> dict[str, Details]:
        """Name, index, dtype and present shape of each input, by its name in the signature."""
        return self._by_key(signature_key).details("inputs")

    def get_output_tensor_details(self, signature_key: str) -> dict[str, Details]:
        """Name, index, dtype and present shape of each output, by its name in the signature."""
        return self._by_key(signature_key).details("outputs")

    def get_input_buffer_requirements(
        self, input_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """Bytes that an input needs, and the kinds of memory it may lie in: 1, the host's."""
        return self._requirements(signature_index, "inputs", input_index)

    def get_output_buffer_requirements(
        self, output_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """Bytes that an output needs, and the kinds of memory it may lie in: 1, the host's."""
        return self._requirements(signature_index, "outputs", output_index)

    def is_fully_accelerated(self) -> bool:
        """Whether every operator of the first signature runs as compiled code."""
        return all(row["backend"] != "reference" for row in self._at(0).session().placement)

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """A buffer for an input; RuntimeError where there is none of that name."""
        return TensorBuffer(self._by_key(signature_key).empty("inputs", input_name))

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """A buffer for an output; RuntimeError where there is none of that name."""
        return TensorBuffer(self._by_key(signature_key).empty("outputs", output_name))

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """A buffer for each input of a signature, in the order of `get_signature_list`."""
        entry = self._at(signature_index)
        return [TensorBuffer(entry.empty("inputs", name)) for name in entry.inputs]

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """A buffer for each output of a signature, in the order of `get_signature_list`."""
        entry = self._at(signature_index)
        return [TensorBuffer(entry.empty("outputs", name)) for name in entry.outputs]

    def resize_input_tensor(
        self,
        input_index: int,
        dims: Sequence[int],
        signature_index: int = 0,
        strict: bool = True,
    ) -> None:
        """Give an input another size; buffers made before it no longer fit.

        Raises:
            RuntimeError: It can never have that size; with `strict`, the file states another.
        """
        entry = self._at(signature_index)
        name = entry.inputs[self._position(entry.inputs, input_index, "Input")]
        entry.resize(name, tuple(checked_index(size, "dims") for size in dims), strict=strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """As `resize_input_tensor`; ValueError where the signature or the input is unknown."""
        index = self.get_signature_index(signature_key)
        if index < 0:
            error = InputError("there is no such signature", where=signature_key)
            raise also(error, ValueError, f"Unknown signature: {signature_key}")
        names = self._signatures[index].inputs
        if input_name not in names:
            error = InputError("there is no such input", where=input_name, why=f"it has {names}")
            sentence = f"Unknown input '{input_name}' for signature '{signature_key}'"
            raise also(error, ValueError, sentence)
        self.resize_input_tensor(names.index(input_name), dims, index, strict)

    def run_by_name(
        self,
        signature_key: str,
        input_map: Mapping[str, TensorBuffer],
        output_map: Mapping[str, TensorBuffer],
    ) -> None:
        """Run a signature on buffers by the names of its inputs and outputs.

        Raises:
            RuntimeError: A name is missing or unknown, a buffer does not fit, or the run failed.
        """
        inputs = {name: buffer.capsule for name, buffer in input_map.items()}
        outputs = {name: buffer.capsule for name, buffer in output_map.items()}
        if self.get_signature_index(signature_key) < 0:
            raise self._no_signature(signature_key, "Failed to get signature_index")
        entry = self._by_key(signature_key)
        _check_names(entry.inputs, inputs, "input")
        _check_names(entry.outputs, outputs, "output")
        entry.run(inputs, outputs)

    def run_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> None:
        """Run a signature on buffers in the order of `get_signature_list`.

        Raises:
            RuntimeError: There are too few or too many, one does not fit, or the run failed.
        """
        inputs = [buffer.capsule for buffer in input_buffers]
        outputs = [buffer.capsule for buffer in output_buffers]
        entry = self._at(signature_index)
        counts = f"number of inputs:{len(entry.inputs)} vs buffers:{len(inputs)}"
        _check_count(entry.inputs, inputs, f"Input buffer size mismatch: {counts}")
        _check_count(entry.outputs, outputs, "Output buffer size mismatch")
        entry.run(
            dict(zip(entry.inputs, inputs, strict=True)),
            dict(zip(entry.outputs, outputs, strict=True)),
        )

    def close(self) -> None:
        """Let go of the compiled network; the model is of no use any more."""
        self._open = None

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _signatures(self) -> Sequence[CompiledSignature]:
        if self._open is None:
            raise also(InputError("the model is closed", fix="open it again"), AttributeError)
        return self._open

    def _at(self, index: int) -> CompiledSignature:
        place = checked_index(index, "signature_index")
        if not 0 <= place < len(self._signatures):
            sentence = "Signature index is out of range of signature keys"
            raise self._no_signature(str(place), sentence, 1000)
        return self._signatures[place]

    def _by_key(self, key: str) -> CompiledSignature:
        index = self.get_signature_index(key)
        if index < 0:
            raise self._no_signature(key, f"Signature not found: {key}")
        return self._signatures[index]

    def _no_signature(self, where: str, sentence: str, code: int = 6) -> CircletError:
        why = f"the model has {[entry.key for entry in self._signatures]}"
        error = InputError("there is no such signature", where=where, why=why)
        return refused(error, code, sentence)

    def _position(self, names: Sequence[str], index: int, what: str) -> int:
        place = checked_index(index, "index")
        if not 0 <= place < len(names):
            error = InputError(f"there is no such {what.lower()}", where=str(place))
            raise refused(error, 1000, f"{what} index out of range")
        return place

    def _requirements(self, signature: int, side: str, index: int) -> dict[str, Any]:
        entry = self._at(signature)
        names: list[str] = getattr(entry, side)
        what = side.removesuffix("s").capitalize()
        name = names[self._position(names, index, what)]
        return {
            "buffer_size": entry.needed_bytes(side, name),
            "supported_types": [_HOST_MEMORY],
        }


def _check_names(names: Sequence[str], given: Mapping[str, np.ndarray], what: str) -> None:
    if set(names) == set(given):
        return
    error = InputError(
        f"the {what}s are not those of the signature",
        why=f"got {sorted(given)}, expected {list(names)}",
    )
    raise refused(error, 6, f"The given map is missing some {what} TensorBuffers")


def _check_count(names: Sequence[str], given: Sequence[np.ndarray], sentence: str) -> None:
    if len(names) == len(given):
        return
    error = InputError("there are too many buffers or too few", why=f"expected {list(names)}")
    raise refused(error, 3, sentence)
