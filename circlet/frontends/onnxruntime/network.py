"""An .onnx file as sessions: as it is, and with other constants or numbers of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

import numpy as np

from circlet.errors import CircletError, GraphError, InputError
from circlet.escape import escaped
from circlet.forking import renew_in_children
from circlet.formats.onnx.edit import constant, edited, from_files
from circlet.formats.onnx.header import Header, ValueInfo, read_header
from circlet.frontends.first_compile import first_session
from circlet.frontends.onnxruntime.errors import Fail, no_graph, status, unopened
from circlet.frontends.onnxruntime.options import (
    GraphOptimizationLevel,
    SessionOptions,
    overrides_of,
)
from circlet.limits import DEFAULT_LIMITS
from circlet.options import DEFAULT_OPTIONS, Options, Shapes
from circlet.runtime.session import Session
from circlet.stored import Stored, StoredBytes, stored

_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "O0",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "O1",
}
_MOST_THREADS = 64
_MOST_SESSIONS = 16

# The names of constants that are given anew, and sizes where they must be known beforehand.
Key = tuple[frozenset[str], Shapes]
AS_IT_IS: Key = (frozenset(), ())


class Network:
    """A file or bytes, and the sessions that run them; any number of threads may use one.

    Attributes:
        header: What the file says of itself.
        inputs: What must be given, with the sizes that the options fix.

    Raises:
        CircletError: Also of a class of `errors`: it cannot be read or made ready.
    """

    def __init__(self, path: str | None, data: bytes, options: SessionOptions) -> None:
        self._path, self._options = path, options
        self._sessions: dict[Key, Session] = {}
        self.renew_after_fork()
        renew_in_children(self)
        try:
            file = stored(data if path is None else path)
            DEFAULT_LIMITS.check_file(file.size, file.name)
            header = read_header(file.data())
            if header is None:
                raise no_graph(path)
            self.header: Header = header
            self.inputs = tuple(self._fixed(info) for info in header.inputs)
            self._source = self._with_constants(file)
            self._open_first()
        except CircletError as error:
            if _is_known(error):
                raise
            raise unopened(error, path) from error.__cause__

    def renew_after_fork(self) -> None:
        """Open the lock: what it guards is whole or absent."""
        self._lock = Lock()

    @property
    def source(self) -> Stored:
        """The file, with the constants that the options give."""
        return self._source

    def fixed_names(self, info: ValueInfo) -> ValueInfo:
        """An output with the sizes that the options fix by name."""
        return self._fixed(info)

    def session(self, given: Mapping[str, np.ndarray]) -> Session:
        """A session that takes these values: of all inputs, and of constants that have new ones.

        Raises:
            CircletError: It cannot be made ready for such values.
        """
        new = frozenset(info.name for info in self.header.overridable if info.name in given)
        known = self._sessions.get((new, ()))
        if known is not None:
            return known
        unknown = [info for info in self._listed(new) if info.shape is None]
        ranks = tuple((info.name, np.shape(given[info.name])) for info in unknown)
        key = (new, ranks)
        if not unknown and key not in self._sessions:
            try:
                return self._made(key)
            except GraphError:
                names = [info.name for info in self._listed(new) if info.is_open]
                key = (new, tuple((name, np.shape(given[name])) for name in names))
        return self._sessions.get(key) or self._made(key)

    def _listed(self, new: frozenset[str]) -> list[ValueInfo]:
        """What callers give, tensors only: what they must, and constants that have new values."""
        extra = [info for info in self.header.overridable if info.name in new]
        return [info for info in (*self.inputs, *extra) if info.is_tensor]

    def _open_first(self) -> None:
        """Make what needs no sizes; a network that has none for size 1 waits for its inputs."""
        if any(info.shape is None for info in self.inputs if info.is_tensor):
            return
        try:
            self._made(AS_IT_IS)
        except GraphError:
            if not any(info.is_open for info in self.inputs):
                raise
            from circlet.formats import load

            load(self._source)

    def _made(self, key: Key) -> Session:
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._opened(*key)
                while len(self._sessions) > _MOST_SESSIONS:
                    del self._sessions[next(iter(self._sessions))]
            return self._sessions[key]

    def _opened(self, new: frozenset[str], shapes: Shapes) -> Session:
        source, sizes = self._source, dict(shapes)
        ranks = {i.name: sizes[i.name] for i in self._listed(new) if i.shape is None}
        if new or ranks:
            data = edited(source.data(), values={}, without=new, shapes=ranks)
            source = StoredBytes(data, source.name, beside=self._path)
        fixed = self._overridden()
        wanted = {name: shape for name, shape in {**fixed, **sizes}.items() if name not in ranks}
        level = _LEVELS.get(self._options.graph_optimization_level)
        options: Options = DEFAULT_OPTIONS._replace(level=level, shapes=tuple(wanted.items()))
        threads = self._options.intra_op_num_threads
        count = min(threads, _MOST_THREADS) if threads > 0 else None
        is_quiet = self._options.log_severity_level > 2
        return first_session(source, count, options=options, is_quiet=is_quiet)

    def _overridden(self) -> dict[str, tuple[int, ...]]:
        """Sizes of inputs that the options fix; open ones that they leave are 1 at first."""
        pairs = zip(self.header.inputs, self.inputs, strict=True)
        return {
            info.name: tuple(size if isinstance(size, int) else 1 for size in info.shape or ())
            for stated, info in pairs
            if info.shape != stated.shape
        }

    def _fixed(self, info: ValueInfo) -> ValueInfo:
        overrides = overrides_of(self._options)
        sizes, meanings = overrides.sizes, overrides.meanings
        if info.shape is None or not (sizes or meanings):
            return info
        places = info.denotations or ("",) * len(info.shape)
        shape = tuple(
            size if isinstance(size, int) else meanings.get(meaning, sizes.get(size or "", size))
            for size, meaning in zip(info.shape, places, strict=True)
        )
        return info._replace(shape=shape)

    def _with_constants(self, file: Stored) -> Stored:
        """The file with the constants that the options give."""
        overrides = overrides_of(self._options)
        given, files = overrides.values, overrides.files
        if not given and not files:
            return file
        views = {name: memoryview(data) for name, data in files.items()}
        values = from_files(file.data(), views)
        for name, value in given.items():
            array = value.numpy()
            raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
            values[name] = constant(name, value.element_type(), array.shape, raw)
        return StoredBytes(edited(file.data(), values=values), file.name, beside=self._path)


def _is_known(error: CircletError) -> bool:
    """Whether an error is already of a class of ONNX Runtime's."""
    return "sentence" in error.__dict__


def write_network(network: Network, path: str) -> None:
    """Write the .onnx file that is run, as it is: Circlet keeps what it made of it in its cache.

    Raises:
        Fail: Its elements lie in other files, or the path cannot be written.
    """
    from circlet.formats.onnx.external import external_names
    from circlet.regular_files import write_file

    data = network.source.data()
    if external_names(data):
        error = InputError("networks with data in other files are not written", where=path)
        raise status(error, Fail, f"Unable to serialize model to {escaped(path)}")
    try:
        write_file(path, data, 0o666, "the model file")
    except CircletError as error:
        raise status(error, Fail, f"Unable to serialize model to {escaped(path)}") from error
