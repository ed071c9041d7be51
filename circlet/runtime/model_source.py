"""Models that are made of something else than a file, and only where no cache knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circlet.struct import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from circlet.artifact.cache import Cache
    from circlet.ir import Model


class ModelSource(Struct):
    """A model that is made where no cache has its artifact.

    Attributes:
        identity: A text that differs where the model does.
        make: Makes the model; the same one each time.
        cache: Where its artifact may be kept; None for the cache of the environment.
    """

    identity: str
    make: Callable[[], Model]
    cache: Cache | None = None
