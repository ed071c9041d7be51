"""What a run is given, checked as ONNX Runtime checks it and refused in its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from circlet.artifact.values import as_strings
from circlet.errors import CircletError, InputError
from circlet.formats.onnx.header import ValueInfo
from circlet.frontends.builtin_errors import also
from circlet.frontends.onnxruntime.element_types import dtype_of, element_of
from circlet.frontends.onnxruntime.errors import Fail, InvalidArgument, refused, status
from circlet.frontends.onnxruntime.ort_value import OrtValue

_FIX = "Please fix either the inputs/outputs or the model."


def check_names(required: Iterable[ValueInfo], feed: object) -> None:
    """ValueError where an input is missing that is not optional, AttributeError without names."""
    if not isinstance(feed, Mapping):
        error = InputError.mistyped("input_feed", feed, "a dict of arrays by the names of inputs")
        sentence = f"{type(feed).__name__!r} object has no attribute 'keys'"
        raise also(error, AttributeError, sentence)
    missing = [v.name for v in required if v.name not in feed and not v.type.startswith("optional")]
    if missing:
        sentence = f"Required inputs ({missing}) are missing from input feed ({list(feed)})."
        raise refused("inputs are missing", ValueError, sentence, ", ".join(missing))


def wanted_outputs(outputs: Sequence[ValueInfo], names: object) -> list[int]:
    """Positions of outputs by their names; all where there are none.

    Raises:
        TypeError: The names are no sequence of texts.
        InvalidArgument: There is no such output.
    """
    known = [info.name for info in outputs]
    if not names:
        return list(range(len(known)))
    if isinstance(names, str) or not isinstance(names, Sequence):
        error = InputError.mistyped("output_names", names, "a list of names, or None")
        raise also(error, TypeError, "run(): incompatible function arguments.")
    for name in names:
        if name not in known:
            error = InputError("there is no such output", where=str(name), fix=f"it has {known}")
            raise status(error, InvalidArgument, f"Invalid output name:{name}")
    return [known.index(name) for name in names]


def arrays_of(inputs: Iterable[ValueInfo], feed: Mapping[str, object]) -> dict[str, Any]:
    """The values of a run by their names, of the types and numbers of dimensions that it takes.

    Raises:
        InvalidArgument: A name is unknown, or a type or shape does not fit.
        RuntimeError: Something is neither an array nor a list.
        Fail: It is None.
    """
    infos = {info.name: info for info in inputs}
    for name in feed:
        if name not in infos:
            error = InputError("there is no such input", where=name, fix=f"it has {list(infos)}")
            raise status(error, InvalidArgument, f"Invalid input name: {name}")
    return {name: _value(infos[name], given) for name, given in feed.items()}


def _value(info: ValueInfo, given: object) -> Any:
    held = given.held() if isinstance(given, OrtValue) else given
    if not info.is_tensor:
        return held
    if held is None:
        error = InputError("an input is None", where=info.name, fix="give an array")
        raise status(error, Fail, f"Missing Input: {info.name}")
    element = info.type.removeprefix("tensor(").removesuffix(")")
    array = _listed(info, held, element) if isinstance(held, list) else held
    if not isinstance(array, np.ndarray):
        what = f"Unable to handle object of type {type(held)}"
        if isinstance(held, str | bytes):
            what = f"Input must be a list of dictionaries or a single numpy array for '{info.name}'"
        raise also(InputError.mistyped(info.name, held, "a numpy array"), RuntimeError, what)
    if info.shape == () and array.size == 1:
        array = array.reshape(())  # scripts give a scalar as [16000], too
    _check_type(info, array, element)
    _check_shape(info, array.shape)
    if element == "string":
        return _strings(info, array)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _listed(info: ValueInfo, given: list[Any], element: str) -> np.ndarray:
    try:
        return np.array(given, dtype_of(element))
    except (ValueError, TypeError, OverflowError) as error:
        fault = InputError("a list is no array", where=info.name, why=str(error))
        raise also(fault, RuntimeError, f"Unable to convert the list of '{info.name}'") from error


def _check_type(info: ValueInfo, array: np.ndarray, element: str) -> None:
    if dtype_of(element) is None:
        return
    found = element_of(array.dtype)
    if found != element:
        error = InputError(
            "an input has the wrong type",
            where=info.name,
            why=f"it is {array.dtype}, the network wants {dtype_of(element)}",
            fix=f"pass array.astype('{dtype_of(element)}')",
        )
        wrong = f"Unexpected input data type. Actual: (tensor({found}))"
        raise status(error, InvalidArgument, f"{wrong} , expected: (tensor({element}))")


def _check_shape(info: ValueInfo, shape: tuple[int, ...]) -> None:
    if info.shape is None:
        return
    if len(shape) != len(info.shape):
        ranks = f"Got: {len(shape)} Expected: {len(info.shape)}"
        raise _misshapen(info, shape, f"Invalid rank for input: {info.name} {ranks}")
    wrong = [
        f" index: {index} Got: {given} Expected: {size}"
        for index, (given, size) in enumerate(zip(shape, info.shape, strict=True))
        if isinstance(size, int) and given != size
    ]
    if wrong:
        lead = f"Got invalid dimensions for input: {info.name} for the following indices"
        raise _misshapen(info, shape, "".join((lead, *wrong)))


def _misshapen(info: ValueInfo, shape: tuple[int, ...], text: str) -> Exception:
    why = f"it is {list(shape)}, the network wants {list(info.shape or ())}"
    error = InputError("an input has the wrong shape", where=info.name, why=why)
    return status(error, InvalidArgument, f"{text} {_FIX}")


def _strings(info: ValueInfo, array: np.ndarray) -> np.ndarray:
    plain = array.astype(f"S{array.dtype.itemsize}") if array.dtype.kind == "V" else array
    return as_strings(plain, info.name)


def result_of(value: Any) -> Any:
    """An output as users get it: elements that are strings are texts."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        texts = np.empty(value.shape, object)
        for index, element in enumerate(value.flat):
            known = isinstance(element, bytes)
            texts.flat[index] = element.decode("utf-8", "replace") if known else element
        return texts
    return value


def failed(error: CircletError) -> CircletError:
    """What ONNX Runtime raises where a run fails."""
    why = error.reasons[0] or error.what
    place = f" Name:'{error.where}'" if error.where else ""
    lead = "Non-zero status code returned while running the network."
    return status(error, Fail, f"{lead}{place} Status Message: {why}")
