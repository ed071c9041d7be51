"""FUSED_STRIPE: chains of convolutions whose images between are never whole (`stripe.h`)."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.layout import Border
from circlet.backends.cpu.lower.copy import element_bytes, fill_pattern, zero_value
from circlet.backends.cpu.lower.products.windows import conv_border, depthwise_border, pixel_gap
from circlet.backends.cpu.lower.stripes.calls import RowCalls
from circlet.backends.cpu.lower.stripes.layers import ImageStrides, Part, Strides, rows_of
from circlet.backends.cpu.lower.stripes.table import (
    ADDED,
    FROM,
    SCRATCH,
    TO,
    StepRow,
    Table,
    call_step,
    fill_step,
    move_step,
)
from circlet.backends.cpu.lowering import LOWERINGS, Context, Kernel, Lowering, TensorRef
from circlet.ir import Op, Tensor
from circlet.ops.fused import FUSED_STRIPE, StripeAttrs
from circlet.plan.memory import Block, MemoryPlan, plan_memory
from circlet.plan.stripes import Keep, Make, Step, plan_stripes
from circlet.plan.validate import validate_plan
from circlet.plan.validate_stripes import validate_stripes
from circlet.target.targets import Target

_KERNEL = Kernel("stripe.h", "stripe")


class _Image(NamedTuple):
    """An image of the chain: a tensor, or rows of one in scratch.

    Attributes:
        start: Elements from the base to the first pixel that is no padding.
        batch: Elements between images.
        base: What its addresses count from.
    """

    tensor: Tensor
    strides: Strides
    start: int
    batch: int
    base: int

    @property
    def row_bytes(self) -> int:
        """Bytes from row to row."""
        return self.strides.row * element_bytes(self.tensor)

    @property
    def pixel_bytes(self) -> int:
        """Bytes from pixel to pixel."""
        return self.strides.pixel * element_bytes(self.tensor)

    def at(self, row: int, column: int, image: int = 0) -> int:
        """Bytes from the base to a pixel."""
        elements = self.start + row * self.strides.row + column * self.strides.pixel
        return (elements + image * self.batch) * element_bytes(self.tensor)


class _StripeLowering:
    """Layers on their way into the table of one call.

    Attributes:
        scratch_bytes: Scratch memory that the kernels of parts ask for.
    """

    def __init__(self, op: Op, context: Context) -> None:
        attrs = op.attributes(StripeAttrs)
        self._context = context
        self._parts = [Part(part) for part in attrs.parts]
        self._plan = plan_stripes([part.stage for part in self._parts], attrs.stripes)
        validate_stripes(self._plan)
        self._memory = self._planned_buffers()
        self._table = Table()
        first, last = self._parts[0].source, self._parts[-1].result
        self._images = [self._outer(first), *self._buffers(), self._outer(last)]
        self._addends = [None if p.addend is None else self._outer(p.addend) for p in self._parts]
        self._row_calls = [RowCalls(part, context) for part in self._parts]
        self._calls: dict[tuple[int, int], list[int]] = {}
        self.scratch_bytes = 0

    def lower(self, op: Op) -> None:
        """Write the table and append the call."""
        self._record()
        self._fill_columns()
        batch = op.outputs[0].static_shape[0]
        for image in range(batch):
            for stripe in self._plan.stripes:
                self._table.add_stripe(
                    *([s for x in steps for s in self._steps(x, image)] for steps in stripe)
                )
        params, operands = self._table.finished(self._context.constant)
        buffers_bytes = align(self._memory.arena_bytes, LINE_BYTES)
        self._context.call(
            op,
            _KERNEL,
            params | {"buffers_bytes": buffers_bytes},
            operands,
            op.outputs,
            tasks=batch * len(self._plan.stripes),
            scratch_bytes=buffers_bytes + self.scratch_bytes,
        )

    def _strides(self, stage: int) -> Strides:
        """Those of the buffer behind a stage, with room for columns of padding."""
        tensor, after = self._parts[stage].result, self._parts[stage + 1]
        _, _, width, pixel = tensor.static_shape
        width = max(after.left + width, after.width)
        if after.layer.kind == "DEPTHWISE_CONV_2D":
            pixel += pixel_gap(tensor, width, after.window.rows.size)
        return Strides(width * pixel, pixel)

    def _planned_buffers(self) -> MemoryPlan:
        blocks = []
        for stage, rows in enumerate(self._plan.capacities):
            tensor = self._parts[stage].result
            row_bytes = self._strides(stage).row * element_bytes(tensor)
            blocks.append(Block(tensor.name, rows * row_bytes, 0, 0, LINE_BYTES))
        memory = plan_memory(blocks, "bump")
        validate_plan(blocks, memory)
        return memory

    def _buffers(self) -> list[_Image]:
        images = []
        for stage, offset in enumerate(self._memory.offsets):
            tensor, strides = self._parts[stage].result, self._strides(stage)
            first = offset // element_bytes(tensor)
            start = first + self._parts[stage + 1].left * strides.pixel
            images.append(_Image(tensor, strides, start, 0, SCRATCH))
        return images

    def _outer(self, tensor: Tensor) -> _Image:
        layout = self._context.layout(tensor)
        strides = Strides(layout.row_stride, layout.pixel_stride)
        batch = layout.batch_stride if layout.batch > 1 else 0
        return _Image(tensor, strides, 0, batch, self._table.base(TensorRef(tensor)))

    def _record(self) -> None:
        """Lower each part over every number of rows that it makes, the commonest first.

        The kernels chosen for that one serve the other numbers too, where they can.
        """
        steps = [s for stripe in self._plan.stripes for group in stripe for s in group]
        counts = Counter((s.stage, s.rows.height) for s in steps if isinstance(s, Make))
        for (stage, count), _ in counts.most_common():
            source, result = self._images[stage : stage + 2]
            addend = self._addends[stage]
            image_strides = ImageStrides(source.strides, result.strides, addend and addend.strides)
            rows = rows_of(self._parts[stage], count, image_strides)
            images = {rows.source: (source.base, FROM), rows.result: (result.base, TO)}
            if rows.addend is not None and addend is not None:
                images[rows.addend] = addend.base, ADDED
            calls = self._row_calls[stage].over(rows)
            self.scratch_bytes = max([self.scratch_bytes, *(c.scratch_bytes for c in calls)])
            self._calls[stage, count] = [self._table.add_call(call, images) for call in calls]

    def _fill_columns(self) -> None:
        """Before any stripe: the columns of padding of all buffers."""
        for stage, rows in enumerate(self._plan.capacities):
            image, left = self._images[stage + 1], self._parts[stage + 1].left
            width = image.tensor.static_shape[2]
            right = image.strides.row // image.strides.pixel - left - width
            for first, pixels in ((-left, left), (width, right)):
                if pixels:
                    size, at = pixels * image.pixel_bytes, image.at(0, first)
                    self._table.set_up(
                        fill_step(at, size, _zero(image.tensor), rows, image.row_bytes)
                    )

    def _steps(self, step: Step, number: int) -> list[StepRow]:
        if isinstance(step, Make):
            return self._make(step, number)
        image, left = self._images[step.stage + 1], self._parts[step.stage + 1].left
        size, row = step.rows.height * image.row_bytes, step.rows.first
        if isinstance(step, Keep):
            before, after = image.at(row - step.before, -left), image.at(row - step.after, -left)
            return [] if before == after else [move_step(before, after, size)]
        return [fill_step(image.at(row - step.target, -left), size, _zero(image.tensor))]

    def _make(self, step: Make, number: int) -> list[StepRow]:
        part, rows = self._parts[step.stage], step.rows
        source, result = self._images[step.stage : step.stage + 2]
        addend = self._addends[step.stage]
        first = rows.first if part.adds_rows else 0
        shifts = {
            "from": source.at(part.stage.reads(rows).first - step.source, -part.left, number),
            "to": result.at(rows.first - step.target, 0, number),
            "added": 0 if addend is None else addend.at(first, 0, number),
        }
        return [call_step(call, shifts) for call in self._calls[step.stage, rows.height]]


def _zero(tensor: Tensor) -> int:
    return fill_pattern(tensor, zero_value(tensor))


def _parts(op: Op) -> tuple[Op, ...]:
    return op.attributes(StripeAttrs).parts


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what this lowering takes."""


def _borders(op: Op) -> dict[int, Border]:
    first = Part(_parts(op)[0])
    if first.is_copy:
        return {}
    is_depthwise = first.layer.kind == "DEPTHWISE_CONV_2D"
    return depthwise_border(first.layer) if is_depthwise else conv_border(first.layer)


def _lower(op: Op, context: Context) -> None:
    _StripeLowering(op, context).lower(op)


LOWERINGS.add(
    Lowering(
        FUSED_STRIPE,
        "fused_stripe",
        _takes,
        _lower,
        borders=_borders,
        strided_inputs=True,
        strided_output=True,
    )
)
