"""The compilation of a model for devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter_ns

from circlet.artifact.cache import Cache
from circlet.backends.registry import find_backend
from circlet.config import Config
from circlet.errors import CircletError
from circlet.frontends.nnapi.codes import (
    CACHE_TOKEN_BYTES,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from circlet.frontends.nnapi.device import Device
from circlet.frontends.nnapi.model import Model, checked_devices
from circlet.frontends.nnapi.network import Network
from circlet.frontends.nnapi.object import NNAPIObject, coded, present, refused
from circlet.frontends.nnapi.states import COMPILATION, Phase
from circlet.options import DEFAULT_BACKENDS, Options
from circlet.stored import StrPath

_PREFIX = "ANeuralNetworksCompilation_"


class Compilation(NNAPIObject):
    """A finished model, compiled for devices.

    Operations go to the first device that takes them. Without devices these are the backends that a
    `Session` has. Compiled artifacts are kept in the cache of the environment, by what the model
    says; `set_caching` names another folder.

    Args:
        model: A finished model.
        devices: The devices that may be used, in order; all others are not.

    Raises:
        NNAPIError: BAD_STATE where the model is not finished.
    """

    table = COMPILATION

    def __init__(self, model: Model, devices: Sequence[Device] | None = None) -> None:
        super().__init__(Phase.BUILDING)
        call = _PREFIX + ("create" if devices is None else "createForDevices")
        present(model, Model, call)
        if devices is not None:
            checked_devices(devices, call)
        self._description = model.description(call)
        self._lowered = model.lowered
        self._devices = None if devices is None else tuple(devices)
        self._preference = PreferenceCode.FAST_SINGLE_ANSWER
        self._timeout_ns = 0
        self._token = b""
        self._cache: Cache | None = None
        self._network: Network | None = None

    @property
    def has_one_device(self) -> bool:
        """Whether it was made for one device by name, which timings and timeouts demand."""
        return self._devices is not None and len(self._devices) == 1

    def set_preference(self, preference: int) -> None:
        """What to be good at: LOW_POWER runs on one thread, the others on all cores."""
        with self._lock:
            self._enter(_PREFIX + "setPreference")
            if preference not in list(PreferenceCode):
                raise refused("a preference is unknown", where=_PREFIX + "setPreference")
            self._preference = PreferenceCode(preference)

    def set_priority(self, priority: int) -> None:
        """How urgent executions are, to devices that share their time; none here does."""
        with self._lock:
            self._enter(_PREFIX + "setPriority")
            if priority not in list(PriorityCode):
                raise refused("a priority is unknown", where=_PREFIX + "setPriority")

    def set_timeout(self, duration_ns: int) -> None:
        """How long `finish` may take, 0 for any time; for compilations for one device."""
        call = _PREFIX + "setTimeout"
        with self._lock:
            if not self.has_one_device and self.phase is not Phase.FREED:
                raise refused("a timeout demands one device", where=call)
            self._enter(call)
            if duration_ns < 0:
                raise refused("a duration is negative", where=call)
            self._timeout_ns = duration_ns

    def set_caching(self, folder: StrPath, token: bytes) -> None:
        """Keep what is compiled in a folder, by a token of 32 bytes.

        A token names a model: where it comes with another one, that is compiled and kept too, and
        no answer is ever another model's.
        """
        call = _PREFIX + "setCaching"
        with self._lock:
            self._enter(call)
            present(token, bytes, call)
            present(folder, os.PathLike if isinstance(folder, os.PathLike) else str, call)
            if len(token) != CACHE_TOKEN_BYTES:
                why = f"{len(token)} bytes, {CACHE_TOKEN_BYTES} are wanted"
                raise refused("a token has the wrong size", where=call, why=why)
            config = Config.from_environment()._replace(cache_dir=folder, cache_is_chosen=True)
            with coded(call):
                self._cache = Cache(config)
            self._token = bytes(token)

    def finish(self) -> None:
        """Compile.

        Raises:
            NNAPIError: BAD_DATA where no device runs some operation; UNAVAILABLE_DEVICE where one
                lacks what it needs; MISSED_DEADLINE_TRANSIENT where it took too long and what was
                compiled is kept, MISSED_DEADLINE_PERSISTENT where it is not.
        """
        call = _PREFIX + "finish"
        with self._lock:
            self._enter(call)
            self._phase = Phase.INVALID
            start = perf_counter_ns()
            with coded(call):
                self._network = self._compiled()
            if self._timeout_ns and perf_counter_ns() - start > self._timeout_ns:
                self._network = None
                raise self._missed(call)
            self._phase = Phase.FINISHED

    def network(self, call: str) -> Network:
        """What was compiled, for a call that needs it."""
        self._enter(call)
        assert self._network is not None
        return self._network

    def free(self) -> None:
        """Let go of what was compiled; executions that were made of it stay usable."""
        super().free()
        self._network = None

    @property
    def placement(self) -> list[dict[str, object]]:
        """One row per operator: kind, source name, backend, and who refused it and why."""
        main = self.network("ANeuralNetworksExecution_create").main
        return [] if main is None else main.session.placement

    def _compiled(self) -> Network:
        names: tuple[str, ...] = DEFAULT_BACKENDS
        if self._devices is not None:
            names = tuple(device.name for device in self._devices)
            for name in names:
                find_backend(name).toolchain()
        threads = 1 if self._preference is PreferenceCode.LOW_POWER else None
        return Network(
            self._description,
            self._lowered,
            Options(backends=names),
            token=self._token,
            cache=self._cache,
            threads=threads,
        )

    def _missed(self, call: str) -> CircletError:
        kept = (self._cache or Cache()).folder is not None
        result = ResultCode.MISSED_DEADLINE_PERSISTENT
        if kept:
            result = ResultCode.MISSED_DEADLINE_TRANSIENT
        return refused("compiling took longer than its timeout", result, where=call)
