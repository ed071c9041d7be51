"""Operators as networks of their own: cut out of networks, with how much hangs on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.errors import CircletError
from circlet.formats import dumps, load
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ops import find
from circlet.plan.cut import part_of


@dataclass(frozen=True)
class Case:
    """One operator, or a short chain of them that a network writes for one, alone.

    Attributes:
        name: Where it is from, its kind and its sizes.
        kind: The kind of the operator, or the family of the chain.
        content: A file.
        share: The part of a network's elementary operations that such operators make, added over
            the networks that have some: what a loss here weighs. 0 for cases of the grid.
        networks: How many networks have one.
        suffix: Of the file's format.
    """

    name: str
    kind: str
    content: bytes
    share: float = 0.0
    networks: int = 0
    suffix: str = ".tflite"


def cases_of(paths: Iterable[Path], least_work: int) -> list[Case]:
    """The distinct operators of networks, those that most hangs on first.

    Operators that are the same but for their constants' values are one case. Left out are those of
    fewer elementary operations than `least_work`, and those that a .tflite file cannot hold.
    """
    found: dict[object, Case] = {}
    for path in paths:
        try:
            model = load(path)
        except (CircletError, OSError):
            continue
        for key, case in _of_network(path.stem, model, found, least_work):
            known = found.get(key)
            found[key] = case if known is None else _joined(known, case)
    return sorted(found.values(), key=lambda case: -case.share)


def _joined(known: Case, more: Case) -> Case:
    """The same case, seen in one network more."""
    share, networks = known.share + more.share, known.networks + more.networks
    return replace(known, share=share, networks=networks)


def _of_network(
    name: str, model: Model, known: dict[object, Case], least_work: int
) -> Iterator[tuple[object, Case]]:
    """Each distinct operator of a network once, with the share of all that are like it."""
    work = {op: _work(op) for op in model.main.ops}
    total = sum(work.values()) or 1
    groups: dict[object, list[Op]] = {}
    for op, count in work.items():
        if count >= least_work and _stands_alone(op):
            groups.setdefault(_likeness(op), []).append(op)
    for key, ops in groups.items():
        content = known[key].content if key in known else _alone(model, ops[0])
        if content:
            share = sum(work[op] for op in ops) / total
            yield key, Case(f"{name}: {_title(ops[0])}", ops[0].label, content, share, 1)


def _work(op: Op) -> int:
    record = find(op.label)
    return 0 if record is None else record.cost(op).work


def _stands_alone(op: Op) -> bool:
    """Whether an operator keeps no state, runs no graphs, and has settled sizes."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    is_settled = all(None not in t.shape and not t.is_variable for t in tensors)
    return (
        is_settled and not op.regions and any(not t.is_constant for t in tensors[: len(op.inputs)])
    )


def _likeness(op: Op) -> object:
    """Equal for operators that take the same kernels."""
    tensors = (*op.inputs, *op.outputs)
    return op.label, repr(op.attrs), tuple(map(_kind_of, tensors))


def _kind_of(tensor: Tensor | None) -> object:
    if tensor is None:
        return None
    scales = 0 if tensor.quant is None else tensor.quant.scale.size
    return tensor.dtype, tensor.shape, tensor.is_constant, scales


def _alone(model: Model, op: Op) -> bytes:
    """A file of the operator alone, empty where no file holds it."""
    fed = dict.fromkeys(t for t in op.inputs if t is not None and not t.is_constant)
    try:
        return dumps(part_of(model, Graph("main", [*fed], [*op.outputs], [op])), "tflite")
    except CircletError:
        return b""


def _title(op: Op) -> str:
    """Kind, and the sizes of inputs and outputs."""
    sizes = [_sizes(t) for t in op.inputs if t is not None and t.elements > 1]
    return f"{op.label} {' '.join(sizes[:2])} to {_sizes(op.outputs[0])}"


def _sizes(tensor: Tensor) -> str:
    return f"{tensor.dtype.name.lower()}[{'x'.join(map(str, tensor.shape))}]"
