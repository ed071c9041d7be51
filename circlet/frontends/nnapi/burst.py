"""A row of executions of one compilation, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circlet.frontends.nnapi.object import NNAPIObject, coded, refused
from circlet.frontends.nnapi.states import BURST, Phase

if TYPE_CHECKING:
    from circlet.frontends.nnapi.compilation import Compilation

_COMPUTE = "ANeuralNetworksExecution_burstCompute"


class Burst(NNAPIObject):
    """Lets executions of one compilation follow each other, one at a time.

    Every execution takes up buffers that one before left, so a burst gains nothing; it is here for
    programs that use it.

    Raises:
        NNAPIError: BAD_STATE where the compilation is not finished.
    """

    table = BURST

    def __init__(self, compilation: Compilation) -> None:
        super().__init__(Phase.READY)
        with coded("ANeuralNetworksBurst_create"):
            self.network = compilation.network("ANeuralNetworksBurst_create")

    def begin(self, network: object) -> None:
        """Take the burst for one execution of a network.

        Raises:
            NNAPIError: BAD_STATE where another one goes on; BAD_DATA where it is another network's.
        """
        with self._lock:
            self._enter(_COMPUTE)
            if network is not self.network:
                raise refused("a burst is of another compilation", where=_COMPUTE)
            self._phase = Phase.COMPUTATION

    def end(self) -> None:
        """Let the next execution begin."""
        with self._lock:
            if self._phase is Phase.COMPUTATION:
                self._phase = Phase.READY
