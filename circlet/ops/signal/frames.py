"""SignalFramer, SignalStacker, SignalDelay and SignalOverlapAdd: what remembers earlier samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops import checks
from circlet.ops.opdef import Arrays, Rule, TensorType
from circlet.ops.operands import operand, present, same_as_first
from circlet.ops.signal.record import kept, rank_is, rows_of, signal_kind, state, with_states

_MOST_KEPT = 1 << 24


@dataclass(frozen=True)
class FramerAttrs:
    """Sizes of frames, samples from one to the next, and whether zeros precede the first sample."""

    frame_size: int = 0
    frame_step: int = 0
    prefill: bool = False


@dataclass(frozen=True)
class StackerAttrs:
    """How many frames before and after one are stacked with it, and frames from stack to stack."""

    num_channels: int = 0
    stacker_left_context: int = 0
    stacker_right_context: int = 0
    stacker_step: int = 0


@dataclass(frozen=True)
class DelayAttrs:
    """How many samples later a sample is given back."""

    delay_length: int = 0


@dataclass(frozen=True)
class OverlapAddAttrs:
    """Samples from one frame to the next."""

    frame_step: int = 0


def _framer_states(op: Op) -> list[Tensor]:
    """Samples that wait for their frame, and how many there are in each row."""
    attrs = op.attributes(FramerAttrs)
    steps = -(-attrs.frame_size // attrs.frame_step)
    room = max((steps - 1) * attrs.frame_step, 1)
    waiting = attrs.frame_size - attrs.frame_step if attrs.prefill else 0
    return [
        state(op, "samples", DType.INT16, (rows_of(operand(op, 0)), room)),
        state(op, "count", DType.INT32, (1,), waiting),
    ]


def _frames(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Frames that are not complete are zero, and then the second result is False."""
    attrs, x = op.attributes(FramerAttrs), present(arrays[0])
    samples, count = kept(arrays, _framer_states(op))
    waiting = int(count[0])
    rows = x.reshape(-1, x.shape[-1])
    line = np.concatenate([samples[:, :waiting], rows], axis=1)
    frames = np.zeros((len(rows), x.shape[-1] // attrs.frame_step, attrs.frame_size), np.int16)
    start, is_whole = 0, True
    for index in range(frames.shape[1]):
        end = waiting + (index + 1) * attrs.frame_step
        if end - start >= attrs.frame_size:
            frames[:, index] = line[:, start : start + attrs.frame_size]
            start += attrs.frame_step
        else:
            is_whole = False
    rest = line[:, start:]
    left = np.zeros_like(samples)
    left[:, : rest.shape[1]] = rest
    shaped = frames.reshape(*x.shape[:-1], *frames.shape[1:])
    states = [left, np.array([rest.shape[1]], np.int32)]
    return with_states(op, [shaped, np.array(is_whole)], states)


def _infer_frames(op: Op) -> list[TensorType]:
    attrs, (*outer, size) = op.attributes(FramerAttrs), operand(op, 0).shape
    count = None if size is None else size // attrs.frame_step
    frames: Shape = (*outer, count, attrs.frame_size)
    return [TensorType(DType.INT16, frames), TensorType(DType.BOOL, ())]


def _frames_fit(op: Op) -> bool:
    shape, step = operand(op, 0).shape, op.attributes(FramerAttrs).frame_step
    if len(shape) < 1:
        return False
    size = shape[-1]
    return size is None or (size >= step and size % step == 0)


def _stacker_states(op: Op) -> list[Tensor]:
    """Frames that wait for their stack; how many values they have, and whether any came yet."""
    size = _stack_size(op)
    return [
        state(op, "frames", DType.INT16, (size,)),
        state(op, "counts", DType.INT32, (2,)),
    ]


def _stack_size(op: Op) -> int:
    attrs = op.attributes(StackerAttrs)
    frames = attrs.stacker_left_context + attrs.stacker_right_context + 1
    return attrs.num_channels * frames


def _stack(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """The first frame counts for those before it as well; a stack that is not complete is zero."""
    attrs, x = op.attributes(StackerAttrs), present(arrays[0])
    frames, counts = kept(arrays, _stacker_states(op))
    copies = 1 if counts[1] else attrs.stacker_left_context + 1
    line = np.concatenate([frames[: counts[0]], *[x] * copies])
    is_whole = line.size >= frames.size
    stack = line[: frames.size] if is_whole else np.zeros_like(frames)
    rest = line[attrs.num_channels * attrs.stacker_step :] if is_whole else line
    left = np.zeros_like(frames)
    left[: rest.size] = rest
    states = [left, np.array([rest.size, 1], np.int32)]
    return with_states(op, [stack.copy(), np.array(is_whole)], states)


def _stacks_fit(op: Op) -> bool:
    attrs = op.attributes(StackerAttrs)
    frames = attrs.stacker_left_context + attrs.stacker_right_context + 1
    return attrs.stacker_step <= frames and operand(op, 0).shape[0] in (None, attrs.num_channels)


def _delay_states(op: Op) -> list[Tensor]:
    """The samples that are yet to be given back."""
    length = max(op.attributes(DelayAttrs).delay_length, 1)
    return [state(op, "samples", DType.INT16, (rows_of(operand(op, 0)), length))]


def _delayed(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x, length = present(arrays[0]), op.attributes(DelayAttrs).delay_length
    (samples,) = kept(arrays, _delay_states(op))
    line = np.concatenate([samples[:, :length], x.reshape(-1, x.shape[-1])], axis=1)
    left = np.zeros_like(samples)
    left[:, :length] = line[:, x.shape[-1] :]
    return with_states(op, [line[:, : x.shape[-1]].reshape(x.shape)], [left])


def _overlap_states(op: Op) -> list[Tensor]:
    """Sums that later frames still add to."""
    data = operand(op, 0)
    return [state(op, "sums", data.dtype, (rows_of(data, 2), data.static_shape[-1]))]


def _overlap_add(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Sums of integers are clamped with each frame that is added."""
    x, step = present(arrays[0]), op.attributes(OverlapAddAttrs).frame_step
    (given,) = kept(arrays, _overlap_states(op))
    sums = given.copy()
    *outer, frame_count, size = x.shape
    frames = x.reshape(-1, frame_count, size)
    made = np.empty((len(frames), frame_count, step), x.dtype)
    for index in range(frame_count):
        sums[...] = _sum(sums, frames[:, index])
        made[:, index] = sums[:, :step]
        sums = np.concatenate([sums[:, step:], np.zeros_like(sums[:, :step])], axis=1)
    return with_states(op, [made.reshape(*outer, frame_count * step)], [sums])


def _sum(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.dtype == np.float32:
        return left + right
    return np.clip(left.astype(np.int32) + right, -(1 << 15), (1 << 15) - 1)


def _infer_overlap(op: Op) -> list[TensorType]:
    data, step = operand(op, 0), op.attributes(OverlapAddAttrs).frame_step
    *outer, count, _ = data.shape
    return [TensorType(data.dtype, (*outer, None if count is None else count * step))]


def _overlap_fits(op: Op) -> bool:
    shape, step = operand(op, 0).shape, op.attributes(OverlapAddAttrs).frame_step
    return len(shape) >= 2 and step <= (shape[-1] or step)


def _keeps_little(op: Op, each_row: int) -> bool:
    return rows_of(operand(op, 0)) * each_row <= _MOST_KEPT


FRAMER = signal_kind(
    "Framer",
    FramerAttrs,
    ["INT16 -> INT16"],
    _infer_frames,
    _frames,
    outputs=2,
    rules=(
        checks.at_least(("frame_size", "frame_step"), 1),
        Rule(
            "step",
            lambda op: (
                op.attributes(FramerAttrs).frame_step <= op.attributes(FramerAttrs).frame_size
            ),
            "frame_step must not be larger than frame_size",
        ),
        Rule("input_size", _frames_fit, "a row of the input must be one or more whole steps"),
    ),
    states=_framer_states,
    state_count=2,
)

STACKER = signal_kind(
    "Stacker",
    StackerAttrs,
    ["INT16 -> INT16"],
    lambda op: [TensorType(DType.INT16, (_stack_size(op),)), TensorType(DType.BOOL, ())],
    _stack,
    outputs=2,
    rules=(
        checks.at_least(("num_channels", "stacker_step"), 1),
        checks.at_least(("stacker_left_context", "stacker_right_context"), 0),
        Rule("stack_size", lambda op: _stack_size(op) <= _MOST_KEPT, "a stack is too large"),
        rank_is(1, 0),
        Rule(
            "frames",
            _stacks_fit,
            "the input needs num_channels elements, a step must not exceed a stack",
        ),
    ),
    states=_stacker_states,
    state_count=2,
)

DELAY = signal_kind(
    "Delay",
    DelayAttrs,
    ["INT16 -> INT16"],
    same_as_first,
    _delayed,
    rules=(
        checks.at_least(("delay_length",), 0),
        Rule("rank", lambda op: len(operand(op, 0).shape) >= 1, "the input must not be a scalar"),
        Rule(
            "kept",
            lambda op: _keeps_little(op, op.attributes(DelayAttrs).delay_length),
            "more samples would be kept than is allowed",
        ),
    ),
    states=_delay_states,
    state_count=1,
)

OVERLAP_ADD = signal_kind(
    "OverlapAdd",
    OverlapAddAttrs,
    ["INT16 -> INT16", "FLOAT32 -> FLOAT32"],
    _infer_overlap,
    _overlap_add,
    rules=(
        checks.at_least(("frame_step",), 1),
        Rule(
            "frames",
            _overlap_fits,
            "the input needs two dimensions or more, of frames no smaller than frame_step",
        ),
    ),
    states=_overlap_states,
    state_count=1,
)
