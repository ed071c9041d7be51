"""One descriptor of an implicit matrix product, which all lowerings of products share.

    im2col matrix                  weights                        result
    [pixels, taps * channels]  x   [taps * channels, filters]  =  [pixels, filters]

A row of the im2col matrix is a window of the source. It is never made: kernels read it where it
lies, in contiguous runs of taps (`Im2colRow`). What happens to sums before they are stored is the
epilogue, of which each family of element types has a class of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lowering import ConstantRef, NoRef, ParamValue, Ref, TensorRef
from circlet.ir import Op, Tensor

E = TypeVar("E")
Sizes = tuple[int, int, int]
Shape = tuple[int, int, int, int]
Weights = Callable[[], npt.NDArray[Any]]


class View(NamedTuple):
    """Pixels of a tensor: where the first one is, and the elements between neighbours.

    Attributes:
        tensor: The tensor.
        offset: Elements from its first to the first pixel.
        batch, row, pixel: Elements between images, rows and pixels.
        placed: Where the first pixel of a constant is; `offset` is 0 then.
    """

    tensor: Tensor
    offset: int
    batch: int
    row: int
    pixel: int
    placed: ConstantRef | None = None

    @classmethod
    def whole(cls, tensor: Tensor, layout: Layout) -> View:
        """Every pixel of a tensor."""
        return cls(tensor, 0, layout.batch_stride, layout.row_stride, layout.pixel_stride)

    @property
    def ref(self) -> TensorRef | ConstantRef:
        """The address of the first pixel."""
        return self.placed or TensorRef(self.tensor, self.offset)

    def strides(self, prefix: str, element_bytes: int = 1) -> dict[str, ParamValue]:
        """The kernels' parameters for this operand."""
        return {
            f"{prefix}_batch": self.batch * element_bytes,
            f"{prefix}_row": self.row * element_bytes,
            f"{prefix}_pixel": self.pixel * element_bytes,
        }

    def moved(self, elements: int) -> View:
        """The pixels so many elements further on, of a computed tensor."""
        assert self.placed is None
        return self._replace(offset=self.offset + elements)


class Im2colRow(NamedTuple):
    """Where a row of the im2col matrix lies: `rows` by `columns` contiguous runs of taps.

    Attributes:
        rows, columns: Runs down and across the window.
        length: Elements of a run.
        row_step, column_step: Elements between neighbouring runs.
    """

    rows: int
    columns: int
    length: int
    row_step: int = 0
    column_step: int = 0

    @property
    def runs(self) -> int:
        """Runs of all rows and columns."""
        return self.rows * self.columns

    def joined(self) -> Im2colRow:
        """The same with rows that follow each other as one run."""
        if self.rows > 1 and self.columns == 1 and self.row_step == self.length:
            return Im2colRow(1, 1, self.rows * self.length)
        return self

    def in_bytes(self, element_bytes: int) -> Im2colRow:
        """The same with lengths and steps in bytes."""
        rows, columns, *elements = self
        return Im2colRow(rows, columns, *(count * element_bytes for count in elements))

    def params(self) -> dict[str, ParamValue]:
        """The integer and AMX kernels' parameters of how runs lie, but for their length."""
        return {
            "run_down": self.row_step,
            "run_across": self.column_step,
            "runs_down": self.rows,
            "runs_across": self.columns,
        }


class Stack(NamedTuple):
    """Matrices on the right of a product, one for each image of its source.

    Attributes:
        sizes: Of the stack, outermost first.
        strides: Elements between matrices along each of these axes.
    """

    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def matrices(self) -> int:
        """Matrices of the stack."""
        return prod(self.sizes)


class ZeroPoints(NamedTuple):
    """Stored zero points of the columns of matrices, of sums that take them off.

    Attributes:
        first: The first one, or nothing where all are 0.
        strides: Elements between those of matrices along each axis of the stack.
        step: Between those of columns; 0 where a matrix has one.
    """

    first: Ref
    strides: tuple[int, ...]
    step: int


class ComputedWeights(NamedTuple):
    """Where weights lie that are known at run time only, as [filters, rows, columns, channels].

    Attributes:
        weights: The first filter's first element.
        filter: Elements between filters.
        taps: Elements between rows and between columns of the window.
        channel: Elements between channels; this or `filter` is 1.
        group: Elements between the first filters of groups.
        bias: One value per filter, or nothing.
        stack: The matrices of which this is the first.
        zeros: What is to be taken off them, where the epilogue asks for that.
    """

    weights: Ref
    filter: int
    taps: tuple[int, int]
    channel: int = 1
    group: int = 0
    bias: Ref = NoRef()
    stack: Stack = Stack()
    zeros: ZeroPoints | None = None


class Product(NamedTuple, Generic[E]):
    """Windows of a source times weights.

    Attributes:
        op: The operator whose constants are packed, and which is named as the origin.
        source: Input at the first tap of each output pixel.
        result: Output pixels.
        sizes: Images, rows of an image, pixels of a row.
        shape: Filters, window rows, window columns, input channels of a group.
        taps: Source elements between rows and between columns of the window.
        weights: Gives constant ones as an array of `shape`; not asked where packed ones are reused.
        epilogue: From sums to what is stored, as the family of kernels does it.
        groups: Groups of filters, each over its own input channels.
        part: Tells products of one op apart whose weights differ.
        rounded: Whether the source holds bfloat16, and weights become such.
        computed: Where weights and bias lie that are known at run time only, or None. `weights` is
            not asked for them, nor the epilogue for their bias.
    """

    op: Op
    source: View
    result: View
    sizes: Sizes
    shape: Shape
    taps: tuple[int, int]
    weights: Weights
    epilogue: E
    groups: int = 1
    part: str = ""
    rounded: bool = False
    computed: ComputedWeights | None = None

    @property
    def filters(self) -> int:
        """Output channels."""
        return self.shape[0]

    @property
    def group_filters(self) -> int:
        """Output channels of a group."""
        return self.filters // self.groups

    @property
    def width(self) -> int:
        """Pixels of a row."""
        return self.sizes[2]

    @property
    def rows(self) -> int:
        """Rows of all images."""
        return self.sizes[0] * self.sizes[1]

    @property
    def depth(self) -> int:
        """Multiply-adds of one output."""
        return prod(self.shape[1:])

    @property
    def multiply_adds(self) -> int:
        """Those of all outputs."""
        return prod(self.sizes) * self.filters * self.depth

    @property
    def im2col(self) -> Im2colRow:
        """The longest runs along rows of the window: columns that follow each other are one."""
        return _runs_of(self.shape, self.taps)

    def params(self) -> dict[str, ParamValue]:
        """The integer kernels' parameters of where windows and outputs lie."""
        return {
            "rows": self.rows,
            "image_rows": self.sizes[1],
            "row_pixels": self.width,
            **self.source.strides("in"),
            **self.result.strides("out"),
            **self.im2col.joined().params(),
        }


@lru_cache(maxsize=1024)
def _runs_of(shape: Shape, taps: tuple[int, int]) -> Im2colRow:
    _, rows, columns, channels = shape
    if columns == 1 or taps[1] == channels:
        return Im2colRow(rows, 1, columns * channels, *taps)
    return Im2colRow(rows, columns, channels, *taps)


def of_rows(
    op: Op, source: Tensor, result: Tensor, matrix: tuple[int, int], weights: Weights, epilogue: E
) -> Product[E]:
    """Rows of a dense tensor times a matrix of (units, depth): each row is a pixel."""
    units, depth = matrix
    return Product(
        op,
        View(source, 0, 0, 0, depth),
        View(result, 0, 0, 0, units),
        (1, 1, source.elements // depth),
        (units, 1, 1, depth),
        (0, 0),
        lambda: np.reshape(weights(), (units, 1, 1, depth)),
        epilogue,
    )
