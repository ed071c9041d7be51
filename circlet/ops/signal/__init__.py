"""TFLite Micro's Signal library: what turns sound into features, in fixed point."""

from circlet.ops.signal import filter_bank, frames, spectrum  # noqa: F401
