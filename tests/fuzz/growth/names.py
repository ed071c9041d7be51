"""Names that programs trip over where they are printed, stored, compiled or used as paths."""

from __future__ import annotations

from random import Random

import numpy as np

from tests.fuzz.growth.parts import Parts, tensor

NAMES = (
    *(
        "",
        " ",
        "x",
        "\x1b[2J\x1b]0;owned\x07",
        "\x9b31m",
        "a\rb",
        "a\nb\n[E-FILE] no",
        "\x00",
        "a\x00b",
    ),
    *(
        "\u202egnp.exe",
        "\u2066x\u2069",
        "\u200b",
        "\ufeff",
        "e\u0301",
        "\U0001f600",
        "\ud7ff\ue000",
    ),
    *("../../../tmp/x", "/etc/passwd", "..", ".", "-rf", "~", "CON", "a/b\\c:d", "x.npy", "C:\\x"),
    *(
        "*/ int main() { /*",
        "//",
        "\\\n#error",
        "??/\n",
        "??)",
        '"',
        "'",
        "`id`",
        "$(id)",
        "%s%n%p",
    ),
    *("{0}", "{x!r}", "[bold]", "[/]", "<b>", "&amp;", "__proto__", "sum", "nan", "\t", "\x7f"),
)
_LENGTHS = (100, 255, 256, 4096, 65_536, 1 << 20, (1 << 20) + 1)
_INVALID = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28", b"\x80")
_PLACEHOLDER = "placeholder of bytes that are no text"


def make(random: Random) -> bytes:
    """A sound network in which each name is one of these; sometimes one is not UTF-8."""
    parts, names = Parts(), _Names(random)
    kind, custom = random.choice((("ADD", ""), ("ADD", ""), ("CUSTOM", names.next() or "c")))
    options = {"table": "AddOptions"} if kind == "ADD" else None
    operator = parts.op(kind, [0, 1], [2], options, custom)
    constant = parts.constant(names.next(), np.ones(4, np.float32))
    tensors = [tensor(names.next()), constant, tensor(names.next()), tensor(names.next())]
    label = {"table": "StableHLOCompositeOptions", "name": names.next()}
    call = parts.op("STABLEHLO_COMPOSITE", [2], [3], label | {"decomposition_subgraph_index": 1})
    calls = random.random() < 0.3
    outputs = [2, 3] if calls else [2] * random.choice((1, 1, 2))
    parts.graph(tensors, [operator, call] if calls else [operator], [0], outputs, names.next())
    inner = parts.op("ADD", [0, 0], [1], {"table": "AddOptions"})
    parts.graph([tensor(names.next()), tensor(names.next())], [inner], [0], [1], names.next())
    entry = {"inputs": _entries(names, 0), "outputs": _entries(names, 2)}
    signatures = [entry | {"signature_key": names.next(), "subgraph_index": 0}]
    blobs = [{"name": names.next(), "buffer": 0} for _ in range(random.choice((0, 1, 2)))]
    more = {"signature_defs": signatures if random.random() < 0.5 else None, "metadata": blobs}
    return _spoilt(parts.encode(description=names.next(), **more), random)


class _Names:
    """One name throughout, or another each time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._same = self._any() if random.random() < 0.3 else None

    def next(self) -> str:
        return self._any() if self._same is None else self._same

    def _any(self) -> str:
        style = self._random.random()
        if style < 0.02:
            return self._random.choice(("x", "\x1b", "/", "\u00e9")) * self._random.choice(_LENGTHS)
        if style < 0.06:
            return _PLACEHOLDER
        if style < 0.2:
            return self._random.choice(NAMES) + self._random.choice(NAMES)
        return self._random.choice(NAMES)


def _entries(names: _Names, number: int) -> list[dict[str, object]]:
    return [{"name": names.next(), "tensor_index": number}]


def _spoilt(data: bytes, random: Random) -> bytes:
    """The file with other bytes where a placeholder stands."""
    marker = _PLACEHOLDER.encode()
    bad = random.choice(_INVALID)
    return data.replace(marker, bad + b"x" * (len(marker) - len(bad)))
