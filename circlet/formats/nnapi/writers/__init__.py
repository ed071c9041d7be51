"""Writers of operators by families; importing this package fills the table."""

from circlet.formats.nnapi.writers import (  # noqa: F401
    elementwise,
    extensions,
    images,
    movement,
    reductions,
)
