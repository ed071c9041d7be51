"""Bytes as ONE's Huffman codes: how .circle files hold the weights of convolutions.

What is stored: the bits of the tree and of the codes as two uint64, then both, the first bit of a
byte being its highest. The tree comes before its branches: 1 and both of them, or 0 and a byte.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import numpy as np

from circlet.errors import FormatError
from circlet.ir import DType, Tensor
from circlet.words import counted

COMPRESSION = "compression_type"  # the field of the schema's tensors
_HUFFMAN = "HUFFMAN"
_HEAD_BYTES, _BYTE = 16, 8
_MOST_TREE_BITS = 256 * (1 + _BYTE) + 255
_LOOKED_AT = 16  # bits at a time
_AT_ONCE = 1 << 16  # bytes

Codes = dict[int, tuple[int, ...]]


def ask_for_codes(tensor: Tensor) -> None:
    """Have files that can do so hold a constant as codes, where these take less."""
    tensor.extra[COMPRESSION] = _HUFFMAN


def is_compressed(tensor: Tensor) -> bool:
    """Whether a file holds a constant as codes, or is asked to."""
    return bool(tensor.extra.get(COMPRESSION))


def is_compressible(tensor: Tensor) -> bool:
    """Whether codes can stand for a constant: bytes of more than one value, stored plainly."""
    data = tensor.data
    if data is None or tensor.dtype not in (DType.INT8, DType.UINT8) or data.size < 2:
        return False
    return tensor.sparsity is None and bool((data != data.reshape(-1)[0]).any())


def huffman_encoded(values: np.ndarray) -> np.ndarray:
    """The codes of bytes of at least two values, the frequent ones in fewer bits."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    numbers, counts = np.unique(flat, return_counts=True)
    order = count()
    nodes: list[tuple[int, int, object]] = [
        (int(often), next(order), int(number))
        for number, often in zip(numbers, counts, strict=True)
    ]
    heapq.heapify(nodes)
    while len(nodes) > 1:
        left, right = heapq.heappop(nodes), heapq.heappop(nodes)
        heapq.heappush(nodes, (left[0] + right[0], next(order), (left[2], right[2])))
    tree, codes = [*_tree_bits(nodes[0][2])], dict(_codes_of(nodes[0][2]))
    bits = [np.array(tree, np.uint8), *_code_bits(flat, codes)]
    head = np.array([len(tree), sum(part.size for part in bits[1:])], "<u8").view(np.uint8)
    return np.concatenate([head, np.packbits(np.concatenate(bits))])


def _code_bits(flat: np.ndarray, codes: Codes) -> Iterator[np.ndarray]:
    """The bits of all bytes, those of some at a time."""
    lengths = np.zeros(256, np.int64)
    table = np.zeros((256, max(map(len, codes.values()))), np.uint8)
    for number, code in codes.items():
        table[number, : len(code)], lengths[number] = code, len(code)
    places = np.arange(table.shape[1])
    for first in range(0, flat.size, _AT_ONCE):
        part = flat[first : first + _AT_ONCE]
        yield table[part][places < lengths[part][:, None]]


def _tree_bits(node: object) -> Iterator[int]:
    if isinstance(node, tuple):
        yield 1
        for branch in node:
            yield from _tree_bits(branch)
    else:
        assert isinstance(node, int)
        yield 0
        yield from (node >> place & 1 for place in reversed(range(_BYTE)))


def _codes_of(node: object, code: tuple[int, ...] = ()) -> Iterator[tuple[int, tuple[int, ...]]]:
    if isinstance(node, tuple):
        for bit, branch in enumerate(node):
            yield from _codes_of(branch, (*code, bit))
    else:
        assert isinstance(node, int)
        yield node, code


def huffman_decoded(stored: np.ndarray, elements: int, where: str) -> np.ndarray:
    """So many bytes that codes stand for, as uint8.

    Raises:
        FormatError: The codes are cut off, or there are more or fewer of them.
    """
    raw = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    if raw.size < _HEAD_BYTES:
        raise _broken(where, f"{raw.size} bytes are stored, the sizes alone take {_HEAD_BYTES}")
    tree_bits, code_bits = map(int, raw[:_HEAD_BYTES].view("<u8"))
    held = (raw.size - _HEAD_BYTES) * _BYTE
    if not 0 < tree_bits <= _MOST_TREE_BITS or code_bits > held - tree_bits:
        raise _broken(where, f"a tree of {tree_bits} and codes of {code_bits} bits in {held}")
    data = raw[_HEAD_BYTES:].tobytes()
    tree = np.unpackbits(raw[_HEAD_BYTES : _HEAD_BYTES + -(-tree_bits // _BYTE)], count=tree_bits)
    node, used = _read_tree(tree.tolist(), where)
    if used != tree_bits:
        raise _broken(where, f"the tree ends after {used} of {tree_bits} bits")
    if isinstance(node, int):
        return np.broadcast_to(np.uint8(node), elements)
    found = _decode(data, tree_bits, tree_bits + code_bits, node, elements)
    if found is None:
        raise _broken(where, f"the codes do not stand for {counted(elements, 'element')}")
    return found


def _read_tree(bits: list[int], where: str) -> tuple[object, int]:
    """The tree and the bits that it takes; branches that wait for their second half are stacked."""
    waiting: list[list[object]] = []
    place = 0
    while place < len(bits):
        place += 1
        if bits[place - 1]:
            waiting.append([])
            continue
        byte = bits[place : place + _BYTE]
        node: object = sum(bit << (_BYTE - 1 - i) for i, bit in enumerate(byte))
        place += _BYTE
        while waiting and len(waiting[-1]) == 1:
            node = (waiting.pop()[0], node)
        if not waiting:
            return node, place
        waiting[-1].append(node)
    raise _broken(where, "the tree is cut off")


def _decode(data: bytes, place: int, end: int, tree: object, elements: int) -> np.ndarray | None:
    """The bytes that codes stand for; None where they are not so many, or do not end with a code.

    A table says what whole codes some bits begin with; a code that is longer is walked to its end.
    """
    if elements > end - place:
        return None
    known: dict[int, tuple[bytes, int]] = {}
    found: list[bytes] = []
    while place < end:
        start = place >> 3
        words = _words(data[start : start + _AT_ONCE + 2])
        stop = min(end, (start + _AT_ONCE) * _BYTE)
        while place < stop:
            window = words[(place >> 3) - start] >> (_BYTE - (place & 7)) & 0xFFFF
            numbers, taken = known.get(window) or known.setdefault(
                window, _whole_codes(tree, window)
            )
            if not taken or place + taken > end:
                numbers, taken = _one_code(tree, data, place, end)
                if not taken:
                    return None
            found.append(numbers)
            place += taken
    made = np.frombuffer(b"".join(found), np.uint8)
    return made if made.size == elements else None


def _words(data: bytes) -> list[int]:
    """The number that each byte and the two behind it make."""
    padded = np.zeros(len(data) + 2, np.uint32)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    made: list[int] = (padded[:-2] << 16 | padded[1:-1] << 8 | padded[2:]).tolist()
    return made


def _whole_codes(tree: object, window: int) -> tuple[bytes, int]:
    """What the codes that lie in some bits as a whole stand for, and the bits that they take."""
    numbers, taken, node = bytearray(), 0, tree
    for place in range(_LOOKED_AT):
        assert isinstance(node, tuple)
        node = node[window >> (_LOOKED_AT - 1 - place) & 1]
        if isinstance(node, int):
            numbers.append(node)
            taken, node = place + 1, tree
    return bytes(numbers), taken


def _one_code(tree: object, data: bytes, place: int, end: int) -> tuple[bytes, int]:
    """What the code at a place stands for, and its bits; none where it is cut off."""
    node, taken = tree, 0
    while isinstance(node, tuple):
        if place + taken >= end:
            return b"", 0
        at = place + taken
        node, taken = node[data[at >> 3] >> (7 - (at & 7)) & 1], taken + 1
    assert isinstance(node, int)
    return bytes([node]), taken


def _broken(where: str, why: str) -> FormatError:
    return FormatError("compressed weights cannot be read", where=where, why=why)
