"""What an OpenCL device does at most: fused multiply-adds and copies, measured by its own clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from circlet.backends.opencl.device import OpenClDevice

_ITEMS_OF_A_UNIT = 2048
_STEPS = 512
_CHAINS = 8  # float4 each: as many sums as hide what an operation waits for
_MOST_BYTES = 1 << 28
_RUNS = 7
_SOURCE = f"""
__kernel void multiply_adds(__global float *out, float a, float b) {{
    float4 x[{_CHAINS}];
    for (int j = 0; j < {_CHAINS}; j++) x[j] = (float4)(get_global_id(0) + j);
    for (int i = 0; i < {_STEPS}; i++)
        for (int j = 0; j < {_CHAINS}; j++) x[j] = fma(x[j], (float4)(a), (float4)(b));
    float4 total = (float4)(0.0f);
    for (int j = 0; j < {_CHAINS}; j++) total += x[j];
    if (total.x + total.y + total.z + total.w == 0.125f) out[0] = total.x;
}}
__kernel void copied(__global const float4 *from, __global float4 *to) {{
    to[get_global_id(0)] = from[get_global_id(0)];
}}
"""


@dataclass(frozen=True)
class DevicePeaks:
    """Peaks of a device.

    Attributes:
        gflops: Float32 fused multiply-adds, two operations each.
        gbs: A copy between two large buffers; both ways count.
    """

    gflops: float
    gbs: float

    def least_us(self, macs: int, moved_bytes: int) -> float:
        """What so much work takes at the least: the slower of arithmetic and memory."""
        return max(2 * macs / self.gflops, moved_bytes / self.gbs) / 1e3


def measured_device_peaks(device: OpenClDevice) -> DevicePeaks:
    """Peaks of a device, each the best of several runs.

    Raises:
        BackendError: Its compiler refuses the kernels.
    """
    import numpy as np
    import pyopencl

    program, queue = device.build(_SOURCE), device.timed_queue()
    flags = pyopencl.mem_flags.READ_WRITE
    size = min(_MOST_BYTES, device.facts.most_bytes // 4)
    if device.facts.shares_memory:
        size = min(size, 1 << 26)
    first, second = (pyopencl.Buffer(device.context, flags, size) for _ in range(2))
    items = device.facts.compute_units * _ITEMS_OF_A_UNIT
    multiply, copy = program.multiply_adds, program.copied
    multiply.set_args(first, np.float32(0.999), np.float32(0.001))
    copy.set_args(first, second)
    operations = items * _STEPS * _CHAINS * 4 * 2
    pyopencl.enqueue_fill_buffer(queue, first, np.uint8(0), 0, size)
    return DevicePeaks(
        operations / _best_ns(queue, multiply, items),
        2 * size / _best_ns(queue, copy, size // 16),
    )


def _best_ns(queue: Any, kernel: Any, items: int) -> float:
    import pyopencl

    best = float("inf")
    for _ in range(_RUNS):
        event = pyopencl.enqueue_nd_range_kernel(queue, kernel, (items // 64 * 64,), (64,))
        event.wait()
        best = min(best, event.profile.end - event.profile.start)
    return max(best, 1.0)
