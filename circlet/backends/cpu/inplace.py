"""Which results may take the memory of an input that nothing reads afterwards, in no later run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from circlet.backends.cpu.lowering import Lowering
from circlet.ir import Op, Tensor


class InPlace:
    """What is known of the ends of tensors, for ops that run once each, in order."""

    def __init__(
        self,
        ops: Sequence[Op],
        rows: Mapping[Op, Lowering],
        readers: Mapping[Tensor, Sequence[Op]],
        lasting: Collection[Tensor],
    ) -> None:
        self._rows = rows
        self._lasting = lasting
        self._readers = readers
        self._positions = {op: index for index, op in enumerate(ops)}
        self._made = {tensor: index for index, op in enumerate(ops) for tensor in op.outputs}

    def sources(self, op: Op, result: Tensor) -> list[Tensor]:
        """Inputs that an op is the last to read and that its kernel may write a result over."""
        overwrites = self._rows[op].overwrites
        if overwrites is None or result.is_variable:
            return []
        return [
            source
            for source in dict.fromkeys(op.inputs)
            if source is not None
            and not (source.is_constant or source.is_variable)
            and source.static_shape == result.static_shape
            and source.dtype.bits == result.dtype.bits
            and self._readers[source][-1] is op
            and (source in self._lasting) <= (result in self._lasting)
            and overwrites(op, source, result)
        ]

    def position(self, op: Op) -> int:
        """Where an op stands."""
        return self._positions[op]

    def end_of(self, tensor: Tensor) -> int:
        """Where the last op stands that makes or reads a tensor; behind all for what is given."""
        readers = self._readers.get(tensor)
        last = self._positions[readers[-1]] if readers else -1
        return max(last, self._made.get(tensor, len(self._positions)))
