"""A model that was read and checked once, and that networks for any sizes are made of."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from circlet.artifact.digest import digest
from circlet.compiler.open_sizes import Guess, guesses
from circlet.errors import GraphError, InputError, UnsupportedOpsError
from circlet.formats import load
from circlet.formats.about import about, graph_number
from circlet.ir import DType, Graph, Model, Op, Origin, Tensor
from circlet.ir import verify as ir_verify
from circlet.ir.copy import copy_of, copy_of_main
from circlet.ir.file_operators import file_operators
from circlet.ir.origin import free_id
from circlet.ir.regions import BRANCHES, call_depth, check_unfolded, reachable
from circlet.limits import Limits, MemoryBudget
from circlet.ops.facts import ShapeAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.shape import copy_op
from circlet.ops.verify import unsupported_ops
from circlet.options import Options
from circlet.passes import PassManager, Rewriter
from circlet.passes.blockwise_to_nbits import BlockwiseToNbits
from circlet.passes.derived import Derived
from circlet.passes.fold_constants import FoldConstants, FoldLedger
from circlet.passes.resolve_tables import resolve_tables
from circlet.passes.resolve_variables import resolve_variables
from circlet.passes.seed_generators import seed_generators
from circlet.passes.start_variables import start_variables
from circlet.passes.unpack_constants import UnpackConstants
from circlet.placement.by_source import words_of_sources
from circlet.stored import Bytes, Stored, StrPath, stored

Source = StrPath | Bytes | Stored | Model


@dataclass(frozen=True)
class Template:
    """A checked model, which stays as it is, and names of its constants.

    Attributes:
        names: A name for each constant; copies of the model have the same constants.
        digest: The hash of the bytes that it was read from, in hexadecimal; "" for a `Model`.
        budget: What its constants took of the memory that is allowed.
        about: What the file says of the network to people, as `circlet.formats.about` has it.
        operators: The origin of each operator of the file that its entry point reaches.
        words: What rules may call source operators, by id, where the options have such rules.
        derived: What passes made of constants, for sizes of the inputs that come later.
    """

    _model: Model
    names: MutableMapping[Tensor, str]
    budget: MemoryBudget
    digest: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    words: Mapping[int, frozenset[str]] = field(default_factory=dict)
    derived: Derived = field(default_factory=Derived)
    operators: tuple[Origin, ...] = ()

    @staticmethod
    def read(source: Source, options: Options) -> Template:
        """A model, of a file or of bytes or as it is, entered at a signature.

        Raises:
            FileError, FormatError: The source cannot be read.
            GraphError, UnsupportedOpsError: As `check`.
            InputError: There is no such signature.
        """
        if isinstance(source, Model):
            return Template.of(copy_of(source), options)
        file = stored(source)
        template = Template.of(load(file, options.limits), options)
        return replace(template, digest=digest(file.data()).hex())

    @staticmethod
    def of(model: Model, options: Options, *, was_checked: bool = False) -> Template:
        """A model, entered at a signature; raises as `read`.

        `was_checked` says that the same bytes passed `check` before.
        """
        number = graph_number(model, options.signature)
        words = words_of_sources(model) if options.backend_of_source else {}
        _enter_at(model, options.signature)
        ops = (op for graph in reachable(model.main) for op in graph.ops)
        operators = tuple(parts[0].origin for parts in file_operators(ops))
        budget = options.limits.memory_budget(model.source_bytes or _constants_bytes(model))
        if was_checked:
            _simplify(model, budget)
        else:
            check(model, options.limits, budget)
        names = WeakKeyDictionary(
            {
                tensor: f"constant {number}.{index}"
                for number, graph in enumerate(model.graphs)
                for index, tensor in enumerate(graph.tensors)
                if tensor.is_constant
            }
        )
        said = about(model, options.signature, number)
        return Template(model, names, budget, about=said, words=words, operators=operators)

    @property
    def is_whole(self) -> bool:
        """Whether the hash says all that the model was read from: no files beside it."""
        return "external_files" not in self._model.extra

    @property
    def has_branches(self) -> bool:
        """Whether a run goes one of several ways somewhere."""
        graphs = self._model.graphs
        return any(op.kind in BRANCHES for graph in graphs for op in graph.ops)

    @property
    def guesses(self) -> list[Guess]:
        """What to try for sizes that nothing states, in order."""
        return list(guesses(self._model.main))

    def copy(self) -> Model:
        """The model, to be rewritten."""
        return copy_of_main(self._model)


def check(model: Model, limits: Limits, budget: MemoryBudget) -> None:
    """See that the main graph is sound in structure, and that all its operators have records.

    Resource variables become variable tensors, constants of packed forms plain ones, and what is
    computed of constants only a constant: some operators demand one.

    Raises:
        GraphError: A rule of the graph is broken.
        UnsupportedOpsError: Some operators have no record; all are named.
        LimitError: Its calls, or its constants, unfold to more than allowed.
    """
    if not model.graphs:
        raise GraphError("the model holds no graph", where=model.source_path)
    call_depth(model)
    check_unfolded(model.main, limits)
    for graph in reachable(model.main):
        for violation in ir_verify.violations(graph):
            raise violation.error()
    if not model.main.outputs:
        raise GraphError("the network has no outputs", where=model.main.name)
    _simplify(model, budget)
    missing = [e for graph in reachable(model.main) for e in unsupported_ops(graph)]
    if missing:
        raise UnsupportedOpsError(missing, where=model.source_path)


def _simplify(model: Model, budget: MemoryBudget) -> None:
    for graph in reachable(model.main):
        start_variables(graph, budget)
    kept = frozenset({DEQUANTIZE})  # for the pass that gives integers to integer kernels
    folding = FoldConstants(sizes=False, keeps=kept, ledger=FoldLedger(budget))
    resolve_tables(model.main)
    seed_generators(model.main)
    resolve_variables(model.main, folding)
    model.graphs = reachable(model.main)  # Nothing checks or runs the others.
    PassManager((BlockwiseToNbits(budget), UnpackConstants(budget), folding)).run(model)


def _constants_bytes(model: Model) -> int:
    """The size of all constants of a model that no file holds; those that share data count once."""
    data = (tensor.data for graph in model.graphs for tensor in graph.constants())
    return sum({id(array): array.nbytes for array in data if array is not None}.values())


def _enter_at(model: Model, key: str) -> None:
    """Make a signature's graph the main one, its inputs and outputs named as the signature does.

    Raises:
        InputError: The model has no signature of that key; an empty key changes nothing.
    """
    if not key:
        return
    found = next((s for s in model.signatures if s.key == key), None)
    if found is None:
        raise InputError(
            "there is no such signature",
            where=key,
            fix=f"the model has {[s.key for s in model.signatures] or 'none'}",
        )
    named = set(found.inputs.values())
    for name, tensor in found.inputs.items():
        tensor.name = name
    for name, tensor in found.outputs.items():
        if tensor in named:
            _output_copy(found.graph, tensor, name)
        else:
            tensor.name = name
            named.add(tensor)
    model.graphs.sort(key=lambda graph: graph is not found.graph)


def _output_copy(graph: Graph, tensor: Tensor, name: str) -> None:
    """Have a graph give a tensor that has a name already under another one as well."""
    origin = Origin.of(free_id(op.origin for part in reachable(graph) for op in part.ops), name)
    sizes, copy = Tensor(f"{name} sizes", DType.INT32, (len(tensor.shape),)), tensor.like(name)
    rewriter = Rewriter(graph)
    rewriter.append(Op("SHAPE", [tensor], [sizes], ShapeAttrs(), origin))
    rewriter.append(copy_op(tensor, copy, origin, sizes))
    rewriter.finish()
    places = [index for index, output in enumerate(graph.outputs) if output is tensor]
    spare = places if tensor in graph.inputs else places[1:]
    if spare:
        graph.outputs[spare[0]] = copy
    else:
        graph.outputs.append(copy)
