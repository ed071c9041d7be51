"""A tour of Circlet: the whole system in miniature, in one sitting.

Run it with `python docs/tour.py`. It reads a real network (a classifier of handwritten digits),
turns it into a small graph, rewrites the graph, plans its memory, writes C, compiles and loads the
C, runs it, and compares the answers with numpy and with Circlet itself. It needs numpy and the
package `ziglang`; Circlet is imported only at the very end.

Everything here is the short version of something in the package. Each section names the file that
does the same thing properly: with all types, with bounds checks, and fast.
"""

# ruff: noqa: T201
from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
SAMPLE = Path(__file__).parents[1] / "circlet" / "sample"


# ## 1. Bytes
#
# A .tflite or .circle file is a flatbuffer. A flatbuffer is made of tables. A table starts with the
# distance back to its vtable; the vtable lists, for each slot of the schema, where in the table the
# field stands, 0 meaning "absent, use the default". Vectors, strings and other tables are stored
# elsewhere, and the field holds the distance to them. The file starts with the position of the root
# table. This reader believes the file. The real one may not: any distance may point outside the
# file, or back at itself, or let a few bytes unfold into work without end.
# In the package: circlet/formats/flatbuffer.py (the reader), circlet/formats/schema/ (the slots).


@dataclass(frozen=True)
class Table:
    """One table of a flatbuffer."""

    data: bytes
    position: int

    def at(self, slot: int) -> int:
        """Where the field of a slot stands in the file; 0 if it is absent."""
        vtable = self.position - self._number("i", self.position)
        if 4 + 2 * slot >= self._number("H", vtable):
            return 0
        offset = self._number("H", vtable + 4 + 2 * slot)
        return self.position + offset if offset else 0

    def scalar(self, slot: int, code: str, default: int = 0) -> int:
        """A number, `code` as in the struct module."""
        at = self.at(slot)
        return self._number(code, at) if at else default

    def table(self, slot: int) -> Table:
        """The table that a field points to."""
        return self._follow(self.at(slot))

    def tables(self, slot: int) -> list[Table]:
        """The elements of a vector of tables."""
        start, count = self._vector(slot)
        return [self._follow(start + 4 * index) for index in range(count)]

    def array(self, slot: int, dtype: str) -> npt.NDArray[np.generic]:
        """The elements of a vector of numbers: a view into the file, not a copy."""
        start, count = self._vector(slot)
        return np.frombuffer(self.data, dtype, count, start)

    def ints(self, slot: int) -> list[int]:
        """The elements of a vector of int32."""
        return [int(value) for value in self.array(slot, "<i4")]

    def _follow(self, at: int) -> Table:
        return Table(self.data, at + self._number("I", at))

    def _vector(self, slot: int) -> tuple[int, int]:
        at = self.at(slot)
        start = at + self._number("I", at)
        return (start + 4, self._number("I", start)) if at else (0, 0)

    def _number(self, code: str, at: int) -> int:
        return int(struct.unpack_from(f"<{code}", self.data, at)[0])


# ## 2. A graph
#
# The intermediate representation has three things: tensors, operators, and the graph that lists the
# operators in the order in which they can run. A tensor with data is a constant; the others are
# computed. Each operator carries an origin: the names of the operators of the user's file that it
# descends from. A rewrite may merge, split or move operators, but it must hand origins on, so that
# an error, a profile or a report can speak in the user's names however far the graph has changed.
# In the package: circlet/ir/graph.py, circlet/ir/origin.py.


@dataclass(eq=False)
class Tensor:
    """A value: its sizes, and its elements where they are constant."""

    name: str
    shape: tuple[int, ...]
    data: Floats | None = None


@dataclass(frozen=True)
class Attributes:
    """What convolutions are parametrised by; the other operators here have none."""

    same: bool = False
    stride: tuple[int, int] = (1, 1)
    relu: bool = False


@dataclass(eq=False)
class Op:
    """One operator: inputs[0] is the data, constants follow."""

    kind: str
    inputs: list[Tensor]
    output: Tensor
    attributes: Attributes
    origin: tuple[str, ...]


@dataclass
class Graph:
    """Operators in execution order, from one input to one output."""

    ops: list[Op]
    input: Tensor
    output: Tensor


# ## 3. From bytes to a graph
#
# The schema's slot numbers are spelled out here. An operator refers to its kind by way of a table
# of operator codes and to its tensors by index; a tensor refers to its data by the index of a
# buffer, and an empty buffer means that the tensor is computed.
# In the package: circlet/formats/read_model.py, read_op.py, read_tensor.py; the attributes of each
# kind are declared by its record in circlet/ops/.

KINDS = {3: "CONV_2D", 4: "DEPTHWISE_CONV_2D", 9: "FULLY_CONNECTED", 22: "RESHAPE", 25: "SOFTMAX"}
FLOAT32 = 0
RELU_SLOT = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 4, "FULLY_CONNECTED": 0}


def read(path: Path) -> Graph:
    """The graph of a .circle file that holds a convolutional float network."""
    data = path.read_bytes()
    model = Table(data, struct.unpack_from("<I", data)[0])
    kinds = [KINDS[code.scalar(3, "i")] for code in model.tables(1)]
    subgraph = model.tables(2)[0]
    buffers = model.tables(4)
    tensors = [read_tensor(table, buffers) for table in subgraph.tables(0)]
    ops = [read_op(table, kinds, tensors) for table in subgraph.tables(3)]
    return Graph(ops, tensors[subgraph.ints(1)[0]], tensors[subgraph.ints(2)[0]])


def read_tensor(table: Table, buffers: list[Table]) -> Tensor:
    """One tensor; only float constants keep their data here."""
    name, shape = table.array(3, "u1").tobytes().decode(), tuple(table.ints(0))
    stored = buffers[table.scalar(2, "I")].array(0, "u1")
    constant = table.scalar(1, "b") == FLOAT32 and len(stored)
    return Tensor(name, shape, stored.view("<f4").reshape(shape) if constant else None)


def read_op(table: Table, kinds: list[str], tensors: list[Tensor]) -> Op:
    """One operator; it is called what its output is called."""
    kind = kinds[table.scalar(0, "I")]
    inputs, output = [tensors[index] for index in table.ints(1)], tensors[table.ints(2)[0]]
    attributes = read_attributes(kind, table.table(4)) if table.at(4) else Attributes()
    return Op(kind, inputs, output, attributes, (output.name,))


def read_attributes(kind: str, options: Table) -> Attributes:
    """The options of an operator in one form for all kinds."""
    relu = kind in RELU_SLOT and options.scalar(RELU_SLOT[kind], "b") == 1
    if not kind.endswith("CONV_2D"):
        return Attributes(relu=relu)
    stride = (options.scalar(2, "i"), options.scalar(1, "i"))
    return Attributes(same=options.scalar(0, "b") == 0, stride=stride, relu=relu)


# ## 4. What operators mean
#
# Before anything is made fast, something has to say what is right: for each kind an evaluation by
# numpy, slow and plain, against which every other way of running the operator is tested. The
# weights of a convolution are [outputs, height, width, inputs]; an odd padded row goes below.
# In the package the evaluation is one field of an operator's record (circlet/ops/opdef.py), next
# to its arity, its types, its shape inference, its verifier rules and its cost.


def pads(op: Op) -> tuple[int, int]:
    """Rows above the image and columns to its left."""
    if not op.attributes.same:
        return 0, 0
    image, kernel, result = op.inputs[0].shape, op.inputs[1].shape, op.output.shape
    reach = [(result[i] - 1) * op.attributes.stride[i - 1] + kernel[i] for i in (1, 2)]
    return max(reach[0] - image[1], 0) // 2, max(reach[1] - image[2], 0) // 2


def conv(op: Op, image: Floats, weights: Floats, bias: Floats, sum_of: str) -> Floats:
    """A convolution; `sum_of` says which products are added up, as numpy.einsum notes it."""
    (top, left), (step_y, step_x) = pads(op), op.attributes.stride
    (height, width), (rows, columns) = weights.shape[1:3], op.output.shape[1:3]
    padded = np.pad(image[0], ((top, height), (left, width), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), (0, 1))
    seen = windows[::step_y, ::step_x][:rows, :columns]  # [y, x, channel, i, j]
    total: Floats = np.einsum(sum_of, seen, weights) + bias
    return total[None]


def softmax(op: Op, scores: Floats, *_: Floats) -> Floats:
    """SOFTMAX; the largest score is subtracted so that no power overflows."""
    powers: Floats = np.exp(scores - scores.max())
    result: Floats = powers / powers.sum()
    return result


EVALUATE: dict[str, Callable[..., Floats]] = {
    "CONV_2D": partial(conv, sum_of="yxcij,oijc->yxo"),  # each output sees every channel
    "DEPTHWISE_CONV_2D": partial(conv, sum_of="yxcij,oijc->yxc"),  # each output sees its own
    "FULLY_CONNECTED": lambda op, rows, weights, bias: rows @ weights.T + bias,
    "RESHAPE": lambda op, values, *_: values.reshape(op.output.shape),
    "SOFTMAX": softmax,
}


def evaluate(graph: Graph, given: Floats) -> Floats:
    """The answer of a graph by numpy."""
    known = {graph.input: given}
    for op in graph.ops:
        constants = [tensor.data for tensor in op.inputs[1:]]
        result = EVALUATE[op.kind](op, known[op.inputs[0]], *constants)
        known[op.output] = result.clip(min=0) if op.attributes.relu else result
    return known[graph.output]


# ## 5. A pass
#
# A pass rewrites a graph into another that gives the same answers. This one fuses two operators and
# changes a constant on the way. A fully connected layer that reads a flattened image weighs every
# pixel of the image: it is a convolution whose kernel is as large as the image. The new operator
# inherits both origins, and there are two kinds less to write code for.
#
#     before: image [1,h,w,c] -> RESHAPE [1,h*w*c] -> FULLY_CONNECTED [n, h*w*c]
#     after:  image [1,h,w,c] -> CONV_2D VALID [n,h,w,c]
#
# In the package: circlet/passes/ has one pass per file; circlet/passes/rewriter.py unites origins,
# so that no pass can forget to; circlet/passes/manager.py verifies the graph after each.


def fuse_flatten(graph: Graph) -> Graph:
    """Turn RESHAPE + FULLY_CONNECTED into CONV_2D wherever nothing else reads what is between."""
    producers = {op.output: op for op in graph.ops}
    ops: list[Op] = []
    for op in graph.ops:
        before = producers.get(op.inputs[0])
        if before is None or not can_fuse(before, op, graph):
            ops.append(op)
            continue
        ops.remove(before)
        ops.append(as_convolution(before, op))
    return replace(graph, ops=ops)


def can_fuse(before: Op, op: Op, graph: Graph) -> bool:
    """Whether the two kinds fit and only `op` reads the flattened image."""
    readers = sum(other.inputs.count(before.output) for other in graph.ops)
    kinds = (before.kind, op.kind) == ("RESHAPE", "FULLY_CONNECTED")
    return kinds and len(before.inputs[0].shape) == 4 and readers == 1


def as_convolution(flatten: Op, op: Op) -> Op:
    """The convolution that does the work of both; its result is [1,1,1,n]."""
    image, (weights, bias) = flatten.inputs[0], op.inputs[1:]
    assert weights.data is not None
    shape = (weights.shape[0], *image.shape[1:])
    kernel = Tensor(weights.name, shape, weights.data.reshape(shape))
    op.output.shape = (1, 1, 1, shape[0])
    origin = flatten.origin + op.origin
    return Op("CONV_2D", [image, kernel, bias], op.output, op.attributes, origin)


# ## 6. Memory
#
# All computed tensors live in one block of memory, the arena. A tensor needs its place only from
# the operator that writes it to the last one that reads it, so two tensors whose lives do not
# overlap may share a place. The planner takes tensors from the largest to the smallest and gives
# each the lowest offset at which it touches nothing that lives at the same time. What is alive at
# any one step is a bound that no plan can beat, so it is printed beside the result.
# In the package: circlet/plan/memory.py; circlet/plan/validate.py checks every plan independently.


@dataclass
class Plan:
    """Where each computed tensor lives, in floats from the arena's start."""

    offsets: dict[Tensor, int] = field(default_factory=dict)
    size: int = 0
    bound: int = 0


Lives = dict[Tensor, tuple[int, int]]  # the first and the last step that touch a tensor


def plan_memory(graph: Graph) -> Plan:
    """An arena plan for everything that is neither the graph's input nor its output."""
    lives: Lives = {}
    for step, op in enumerate(graph.ops):
        if op.inputs[0] in lives:
            lives[op.inputs[0]] = (lives[op.inputs[0]][0], step)
        if op.output is not graph.output:
            lives[op.output] = (step, step)
    plan = Plan()
    for tensor in sorted(lives, key=lambda t: -prod(t.shape)):
        plan.offsets[tensor] = lowest_place(tensor, lives, plan.offsets)
        plan.size = max(plan.size, plan.offsets[tensor] + prod(tensor.shape))
    for step in range(len(graph.ops)):
        alive = (t for t, (first, last) in lives.items() if first <= step <= last)
        plan.bound = max(plan.bound, sum(prod(t.shape) for t in alive))
    return plan


def lowest_place(tensor: Tensor, lives: Lives, placed: dict[Tensor, int]) -> int:
    """The lowest offset that is free for as long as the tensor lives."""
    first, last = lives[tensor]
    offset = 0
    for other in sorted(placed, key=lambda t: placed[t]):
        together = lives[other][0] <= last and first <= lives[other][1]
        if together and placed[other] < offset + prod(tensor.shape):
            offset = max(offset, placed[other] + prod(other.shape))
    return offset


# ## 7. C
#
# Each kernel is written once, by hand, as an inline function of its sizes. The generator writes one
# call per operator with the sizes as literals, and the compiler specialises the function for them.
# The code is freestanding: it includes nothing and links nothing, so there is no `expf` either; the
# kernel brings a short one of its own (x = n ln 2 + r, a polynomial for e^r, n into the exponent
# bits). Freestanding code compiles in milliseconds and loads on any Linux of that processor.
#
# One rule is about safety: names come from the file, and the file may come from anyone, so a name
# enters C only as a comment, and all but letters, digits and two signs is replaced.
# In circlet/backends/cpu: lower/ turns each operator into kernel calls, kernels/*.h are the kernels
# (vectorised, one source for all instruction sets), emit.py writes the units.

KERNELS = r"""
typedef struct { int h, w, c, oh, ow, oc, kh, kw, sy, sx, top, left, relu; } conv_sizes;

static inline __attribute__((always_inline)) void convolve(const float *x, const float *k,
        const float *bias, float *y, conv_sizes s, int depthwise) {
    for (int oy = 0; oy < s.oh; oy++) for (int ox = 0; ox < s.ow; ox++)
    for (int o = 0; o < s.oc; o++) {
        float sum = 0;
        for (int i = 0; i < s.kh; i++) for (int j = 0; j < s.kw; j++) {
            int iy = oy * s.sy + i - s.top, ix = ox * s.sx + j - s.left;
            if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
            const float *pixel = x + (iy * s.w + ix) * s.c;
            if (depthwise) { sum += pixel[o] * k[(i * s.kw + j) * s.c + o]; continue; }
            const float *row = k + ((o * s.kh + i) * s.kw + j) * s.c;
            for (int c = 0; c < s.c; c++) sum += pixel[c] * row[c];
        }
        sum += bias[o];
        y[(oy * s.ow + ox) * s.oc + o] = s.relu && sum < 0 ? 0 : sum;
    }
}

static float power_of_e(float x) {
    if (x < -87) return 0;
    int n = (int)(x * 1.44269504f - 0.5f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1 + r * (1 + r * (0.5f + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r / 720)))));
    union { int bits; float value; } scale = {(n + 127) << 23};
    return p * scale.value;
}

static inline void softmax(const float *x, float *y, int count) {
    float most = x[0], sum = 0;
    for (int i = 1; i < count; i++) most = x[i] > most ? x[i] : most;
    for (int i = 0; i < count; i++) sum += y[i] = power_of_e(x[i] - most);
    for (int i = 0; i < count; i++) y[i] /= sum;
}
"""


def generate(graph: Graph, plan: Plan) -> tuple[str, Floats]:
    """C that defines `run(input, output, arena, constants)`, and the constants."""
    places = {tensor: f"arena + {offset}" for tensor, offset in plan.offsets.items()}
    places |= {graph.input: "in", graph.output: "out"}
    packed: list[Floats] = []
    lines = [KERNELS, "void run(const float *in, float *out, float *arena, const float *data) {"]
    for op in graph.ops:
        comment = re.sub(r"[^A-Za-z0-9_+]", ".", "+".join(op.origin))
        lines += [f"    /* {comment} */", f"    {call(op, places, packed)}"]
    return "\n".join([*lines, "}", ""]), np.concatenate(packed)


def call(op: Op, places: dict[Tensor, str], packed: list[Floats]) -> str:
    """One kernel call."""
    source, result = places[op.inputs[0]], places[op.output]
    if op.kind == "SOFTMAX":
        return f"softmax({source}, {result}, {prod(op.output.shape)});"
    if op.kind not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        raise NotImplementedError(f"{op.kind} ({'+'.join(op.origin)}) has no kernel here")
    kernel, bias = (constant(tensor, packed) for tensor in op.inputs[1:])
    image, weights, out = (tensor.shape for tensor in (*op.inputs[:2], op.output))
    stride, relu = op.attributes.stride, int(op.attributes.relu)
    sizes = (*image[1:], *out[1:], *weights[1:3], *stride, *pads(op), relu)
    literal = f"(conv_sizes){{{', '.join(map(str, sizes))}}}"
    depthwise = int(op.kind == "DEPTHWISE_CONV_2D")
    return f"convolve({source}, {kernel}, {bias}, {result}, {literal}, {depthwise});"


def constant(tensor: Tensor, packed: list[Floats]) -> str:
    """Append a constant to the packed ones; C for where it starts."""
    assert tensor.data is not None
    start = sum(array.size for array in packed)
    packed.append(tensor.data.ravel())
    return f"data + {start}"


# ## 8. Compile, load, run
#
# The compiler is clang, inside the Python package `ziglang`; ctypes loads what it makes. The arena
# and the constants are numpy arrays, of which the generated function gets plain pointers.
# In circlet/backends/cpu: toolchain.py and flags.py compile, artifact.py stores, the C library in
# runtime/ runs a plan over several threads without Python. circlet/runtime/session.py is what users
# hold.


def compile_and_load(text: str, folder: Path) -> Callable[..., None]:
    """The generated function, ready to be called."""
    (folder / "network.c").write_text(text)
    target = ["-target", f"{platform.machine()}-linux-none"]
    flags = ["-O2", "-shared", "-nostdlib", "-fPIC", "-ffreestanding", "-fno-builtin", *target]
    zig = [sys.executable, "-m", "ziglang", "cc"]
    command = [*zig, *flags, "network.c", "-o", "network.so"]
    cache = {"ZIG_GLOBAL_CACHE_DIR": "zig", "ZIG_LOCAL_CACHE_DIR": "zig"}
    subprocess.run(command, cwd=folder, env={**os.environ, **cache}, check=True)
    function = ctypes.CDLL(str(folder / "network.so")).run
    function.restype = None
    function.argtypes = [np.ctypeslib.ndpointer(np.float32, flags="C")] * 4
    return function


def main() -> None:
    """From the file to three answers that agree."""
    graph = read(SAMPLE / "digits_float.circle")
    print(f"read {len(graph.ops)} operators: {' '.join(op.kind for op in graph.ops)}")
    with np.load(SAMPLE / "digits.npz") as shipped:
        pictures, digits = [image[None] for image in shipped["images"]], shipped["labels"]
    wanted = np.concatenate([evaluate(graph, picture) for picture in pictures])
    print(f"numpy reads {(wanted.argmax(1) == digits).sum()} of {len(digits)} digits correctly")
    graph = fuse_flatten(graph)
    print(f"after the pass {len(graph.ops)}: {' '.join('+'.join(op.origin) for op in graph.ops)}")
    plan = plan_memory(graph)
    print(f"arena of {4 * plan.size} bytes, no plan can do with less than {4 * plan.bound}")
    text, constants = generate(graph, plan)
    print(f"{len(text.splitlines())} lines of C, {constants.nbytes} bytes of weights")
    ours, arena = np.zeros_like(wanted), np.zeros(plan.size, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        run = compile_and_load(text, Path(folder))
    for picture, answer in zip(pictures, ours, strict=True):
        run(picture, answer, arena, constants)
    agree(ours, wanted, "numpy")
    from circlet import Session  # the real thing, for comparison only

    session = Session(SAMPLE / "digits_float.circle")
    real = np.concatenate([session.run([p])["probabilities"] for p in pictures])
    agree(ours, real, "Circlet")


def agree(ours: Floats, theirs: Floats, name: str) -> None:
    """Print how far our answers are from others; end the program if it is too far."""
    difference = float(np.abs(ours - theirs).max())
    print(f"our C and {name} differ by at most {difference:.0e}")
    if not difference < 1e-5:
        raise SystemExit(f"the answers of {name} are not ours")


if __name__ == "__main__":
    main()
