"""An independent validator of stripes: it simulates them and looks at every row."""

from __future__ import annotations

from collections.abc import Iterable

from circlet.errors import GraphError
from circlet.plan.stripes import Fill, Keep, Make, Rows, Stage, Step, StripePlan

_PADDING = "padding"
_Slots = dict[int, int | str]  # what each row of a buffer holds: a row of its image, or padding


def validate_stripes(plan: StripePlan) -> None:
    """Check that all output rows are made, each from the rows that its windows cover.

    Every stripe is played after the stripe before it and afresh.

    Raises:
        GraphError: A row is read that is not there, written beyond its buffer, or never made.
    """
    made: list[int] = []
    player = _Player(plan)
    for number, stripe in enumerate(plan.stripes):
        alone = _Player(plan)
        outputs = alone.play((*stripe.afresh, *stripe.body))
        if number == 0:
            player.play(stripe.afresh)
        if player.play((*stripe.onward, *stripe.body)) != outputs:
            raise GraphError("a stripe makes other rows when it starts afresh", where=str(number))
        made += outputs
    if made != list(range(plan.stages[-1].height)):
        raise GraphError("stripes do not make every output row once")


class _Player:
    def __init__(self, plan: StripePlan) -> None:
        self._stages, self._capacities = plan.stages, plan.capacities
        self._buffers: list[_Slots] = [{} for _ in plan.capacities]

    def play(self, steps: Iterable[Step]) -> list[int]:
        """Do the steps; the output rows that they make."""
        outputs: list[int] = []
        for step in steps:
            if isinstance(step, Keep):
                self._keep(step)
            elif isinstance(step, Fill):
                self._write(step.stage, step.rows, step.target, is_padding=True)
            else:
                outputs += self._make(step)
        return outputs

    def _keep(self, step: Keep) -> None:
        slots = self._buffers[step.stage]
        moved: _Slots = {}
        for row in range(*step.rows):
            known = slots.get(row - step.before)
            if known is None:
                raise GraphError("a row is kept that is not there", where=f"row {row}")
            moved[self._slot(step.stage, row - step.after)] = known
        self._buffers[step.stage] = moved

    def _make(self, step: Make) -> list[int]:
        stage = self._stages[step.stage]
        if step.rows.first < 0 or step.rows.stop > stage.height:
            raise GraphError("a row outside the image is made", where=str(step))
        for row in range(*step.rows):
            self._check_window(step, stage, row)
        if step.stage == len(self._stages) - 1:
            return list(range(*step.rows))
        self._write(step.stage, step.rows, step.target, is_padding=False)
        return []

    def _check_window(self, step: Make, stage: Stage, row: int) -> None:
        if step.stage == 0:
            return
        slots, height = self._buffers[step.stage - 1], self._stages[step.stage - 1].height
        for tap in range(stage.window.size):
            wanted = row * stage.window.stride - stage.top + tap * stage.window.dilation
            held = slots.get(wanted - step.source)
            if held != (wanted if 0 <= wanted < height else _PADDING):
                where = f"row {row} of stage {step.stage}"
                raise GraphError("a window covers a row that is not there", where=where)

    def _write(self, stage: int, rows: Rows, target: int, *, is_padding: bool) -> None:
        for row in range(*rows):
            slot = self._slot(stage, row - target)
            self._buffers[stage][slot] = _PADDING if is_padding else row

    def _slot(self, stage: int, slot: int) -> int:
        if not 0 <= slot < self._capacities[stage]:
            raise GraphError("a row lies outside its buffer", where=f"stage {stage}")
        return slot
