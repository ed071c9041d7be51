"""Why an operator takes its time, in a sentence, by rules on the figures alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from circlet.backends.profiled import Work
from circlet.profiling.roofline import Least, Machine, least_times, total

SHORT_US = 1.0
_CLOSE = 0.5
_MUCH = 0.25
_NEAR = 0.7
_FAR = 0.1
_LITTLE = 0.25
_LEAST = 0.01
_FEW_US = 20.0


class Piece(NamedTuple):
    """The part of a kernel call that counts for an operator.

    Attributes:
        us: Of its time.
        share: Of its work and of its bytes.
        range_us: Of the least and of the most time of the call.
    """

    work: Work
    us: float
    share: float
    range_us: tuple[float, float] = (0.0, 0.0)


class Facts(NamedTuple):
    """What the sentence is made of.

    Attributes:
        pieces: What computed the operator; none where it needed no kernel.
        refusal: Why no native kernel took it; "" where one did.
        machine: None where peaks are not known.
        subnormals: Weights that are subnormal numbers.
        within: Operators whose kernels do its work on the way; none where it has kernels.
    """

    pieces: Sequence[Piece]
    refusal: str = ""
    machine: Machine | None = None
    subnormals: int = 0
    within: Sequence[str] = ()

    @property
    def us(self) -> float:
        """All its time."""
        return sum(piece.us for piece in self.pieces)


def why(facts: Facts) -> str:
    """The first rule that holds, as a sentence."""
    us = facts.us
    if not facts.pieces and facts.within:
        return f"no time of its own: folded into constants, or into the kernel of {facts.within[0]}"
    if not facts.pieces:
        return "it needs no kernel: folded away, or a view of what another operator made"
    if facts.refusal:
        return f"a fallback: it runs in numpy, as {facts.refusal}"
    if not us:
        return "no time of its own: it depends on no input, and was computed before the first run"
    calls_us = sum(piece.us / piece.share for piece in facts.pieces if piece.share)
    if calls_us < SHORT_US:
        return (
            f"a small shape: {calls_us:.2f} us in all, so starting a kernel counts as much as "
            "its work"
        )
    if us < _LITTLE * calls_us:
        return f"fused: it is {us / calls_us:.1%} of what its kernels compute"
    copied = sum(piece.us for piece in facts.pieces if piece.work.copies)
    if copied > _MUCH * us and copied < us:
        return f"layout: {copied / us:.0%} of its time copies or pads what it reads"
    if facts.subnormals and _is_far(facts):
        return (
            f"subnormal weights: {facts.subnormals:,} are nearer to 0 than normal numbers, which "
            "processors multiply many times slower; make them 0"
        )
    return _by_rooflines(facts, facts.machine) if facts.machine else _by_counts(facts)


def _is_far(facts: Facts) -> bool:
    """Whether the time is far above what the machine allows, as far as that is known."""
    machine = facts.machine
    if machine is None:
        return True
    least = total((least_times(piece.work, machine), piece.share) for piece in facts.pieces)
    return least.us < _FAR * facts.us


def _by_rooflines(facts: Facts, machine: Machine) -> str:
    us, pieces = facts.us, facts.pieces
    limits = total((least_times(piece.work, machine), piece.share) for piece in pieces)
    macs, outputs = _counts(pieces)
    if limits.memory > limits.arithmetic and limits.memory > _CLOSE * us:
        return _memory_bound(limits, us, pieces)
    integer = any(piece.work.unit != "fp32" for piece in pieces)
    requantised = outputs / machine.peaks.requantised_gops / machine.threads / 1e3
    if integer and macs > outputs and requantised > _MUCH * us:
        return (
            f"requantisation: {macs / max(1, outputs):.0f} products for each output, "
            f"{requantised / us:.0%} of the time makes sums into bytes"
        )
    few = max(piece.work.tasks for piece in pieces)
    if few < machine.threads and us > _FEW_US:
        return f"a small shape: {few} piece of work for {machine.threads} threads"
    if macs <= outputs:
        return _by_counts(facts)
    unit = max(pieces, key=lambda piece: piece.us).work.unit
    reached, products = limits.arithmetic / us, f"{macs / max(1, outputs):.0f} products"
    if reached > _NEAR:
        return f"arithmetic: at {reached:.0%} of what the machine can do in {unit}"
    if limits.memory > limits.arithmetic:
        rate = f"at {_part(limits.memory / us)} of the rate at which its operands can be moved"
        return f"the kernel: {rate}, {products} for each output"
    return f"the kernel: at {_part(reached)} of the peak of {unit}, {products} for each output"


def _part(share: float) -> str:
    """A share in words; that of little is not said to be nothing."""
    return f"{share:.0%}" if share >= _LEAST else f"less than {_LEAST:.0%}"


def _memory_bound(limits: Least, us: float, pieces: Sequence[Piece]) -> str:
    weights = round(sum(piece.work.constant_bytes * piece.share for piece in pieces))
    data = round(sum(piece.work.data_bytes * piece.share for piece in pieces))
    if limits.weights > limits.data:
        return (
            f"far weights: {limits.weights / us:.0%} of the time is what fetching "
            f"{_size(weights)} of weights takes"
        )
    return (
        f"memory bound: {limits.memory / us:.0%} of the time is what moving "
        f"{_size(weights + data)} takes"
    )


def _by_counts(facts: Facts) -> str:
    macs, outputs = _counts(facts.pieces)
    size = sum(piece.work.bytes * piece.share for piece in facts.pieces)
    rate = size / facts.us / 1e3
    if all(piece.work.copies for piece in facts.pieces):
        return f"it only moves data: {_size(round(size))} at {rate:.1f} GB/s"
    if macs <= outputs:
        return f"no products: it goes over {_size(round(size))} at {rate:.1f} GB/s"
    return f"{2 * macs / facts.us / 1e3:.1f} GOP/s, {macs / max(1, outputs):.0f} products an output"


def _counts(pieces: Sequence[Piece]) -> tuple[float, float]:
    """Multiply-accumulates and results."""
    macs = sum(piece.work.macs * piece.share for piece in pieces)
    return macs, sum(piece.work.outputs * piece.share for piece in pieces)


def _size(size_bytes: int) -> str:
    if size_bytes < 10_240:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes < 10 << 20 else f"{size_bytes >> 20} MiB"
