"""Execution providers: all work is the CPU's, whatever others are named."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also

CPU = "CPUExecutionProvider"
_ELSEWHERE = (
    *("Tensorrt", "CUDA", "MIGraphX", "OpenVINO", "Dnnl", "VitisAI", "QNN", "Nnapi", "VSINPU"),
    *("Js", "CoreML", "Dml", "Rknpu", "WebNN", "WebGpu", "Xnnpack", "CANN", "Azure"),
)
_LOGGER = logging.getLogger(__name__)

Providers = Sequence[str | tuple[str, Mapping[object, object]]]
ProviderOptions = Sequence[Mapping[object, object]]


def get_available_providers() -> list[str]:
    """The CPU's provider."""
    return [CPU]


def get_all_providers() -> list[str]:
    """The names that ONNX Runtime knows, the CPU's last."""
    return [*(f"{name}ExecutionProvider" for name in _ELSEWHERE), CPU]


def get_device() -> str:
    """What networks run on: "CPU"."""
    return "CPU"


def chosen_options(
    providers: Providers | None, options: ProviderOptions | None, *, is_strict: bool
) -> dict[str, str]:
    """The options of the CPU's provider.

    Others that ONNX Runtime knows are left out with a warning. What it does not know is left out
    too, and logged, unless `is_strict`.

    Raises:
        ValueError: The arguments are malformed.
        RuntimeError: A provider is unknown.
    """
    try:
        named = _normalised(providers, options)
        for name in named:
            if name not in get_available_providers():
                said = f"Specified provider '{name}' is not in available provider names."
                warnings.warn(f"{said} Available providers: '{CPU}'", stacklevel=3)
            if name not in get_all_providers():
                error = InputError("there is no such provider", where=name, fix=f"use {CPU}")
                raise also(error, RuntimeError, f"Unknown Provider Type: {name}")
    except (ValueError, RuntimeError) as error:
        if is_strict:
            raise
        _LOGGER.warning("going on with %s: %s", CPU, error)
        return {}
    return named.get(CPU, {})


def _normalised(providers: Any, options: Any) -> dict[str, dict[str, str]]:
    if providers is None:
        return {}
    if not isinstance(providers, Sequence):
        raise _malformed("'providers' should be a sequence.")
    if options is None:
        pairs: list[Any] = [(e, {}) if isinstance(e, str) else e for e in providers]
    elif len(options) != len(providers):
        lead = "'providers' and 'provider_options' should be the same length"
        raise _malformed(f"{lead} if both are given.")
    elif not all(isinstance(entry, str) for entry in providers):
        lead = "Only string values for 'providers' are supported"
        raise _malformed(f"{lead} if 'provider_options' is given.")
    else:
        pairs = list(zip(providers, options, strict=True))
    found: dict[str, dict[str, str]] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            lead = "'providers' values must be either strings"
            raise _malformed(f"{lead} or (string, dict) tuples.")
        if not isinstance(pair[1], dict):
            raise _malformed("'provider_options' values must be dicts.")
        found.setdefault(pair[0], {str(key): str(value) for key, value in pair[1].items()})
    return found


def _malformed(sentence: str) -> Exception:
    error = InputError("the providers are not stated as they should be", where="providers")
    return also(error, ValueError, sentence)
