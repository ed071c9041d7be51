"""Passes by name; a pass's module is imported when the pass is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import cast

from circlet.errors import InputError
from circlet.passes.manager import Pass

_NO_OPTIONS: Mapping[str, Mapping[str, object]] = {}


@dataclass(frozen=True)
class PassTable:
    """Passes by name.

    Attributes:
        package: The package that holds one module per pass.
        classes: "module:Class" of each pass; a module elsewhere by its full name.
    """

    package: str
    classes: Mapping[str, str]

    def make(self, name: str, **options: object) -> Pass:
        """The pass of a name, its dataclass fields set by `options`.

        Raises:
            InputError: There is no such pass, or it has no such option.
        """
        kind = self.find(name)
        try:
            return kind(**options)
        except TypeError as error:
            raise InputError("a pass has no such option", where=name, why=str(error)) from None

    def find(self, name: str) -> Callable[..., Pass]:
        """The class of the pass of a name; InputError where there is none."""
        known = self.classes
        if name not in known:
            near = get_close_matches(name, known, 1)
            fix = f"did you mean '{near[0]}'?" if near else f"known passes: {', '.join(known)}"
            raise InputError("there is no such pass", where=name, fix=fix)
        module, _, class_name = known[name].partition(":")
        place = module if "." in module else f"{self.package}.{module}"
        return cast("Callable[..., Pass]", getattr(import_module(place), class_name))

    def made(
        self, names: Iterable[str], options: Mapping[str, Mapping[str, object]] = _NO_OPTIONS
    ) -> tuple[Pass, ...]:
        """The passes of several names, with the options that are given for some of them."""
        return tuple(self.make(name, **options.get(name, {})) for name in names)


PASSES = PassTable(
    "circlet.passes",
    {
        "fold-constants": "fold_constants:FoldConstants",
        "remove-dead-ops": "remove_dead_ops:RemoveDeadOps",
        "remove-identity": "remove_identity:RemoveIdentity",
        "canonicalize-reshape": "canonicalize_reshape:CanonicalizeReshape",
        "merge-reshapes": "merge_reshapes:MergeReshapes",
        "fuse-activation": "fuse_activation:FuseActivation",
        "fuse-pad": "fuse_pad:FusePad",
        "decompose": "decompose:Decompose",
        "decompose-for-tflite": "decompose_for_tflite:DecomposeForTflite",
        "inline-composite": "inline_composite:InlineComposite",
        "legalize-stablehlo": "legalize_stablehlo:LegalizeStablehlo",
        "inline-branch": "inline_branch:InlineBranch",
        "blockwise-to-nbits": "blockwise_to_nbits:BlockwiseToNbits",
        "unpack-constants": "unpack_constants:UnpackConstants",
        "fuse-list-update": "fuse_list_update:FuseListUpdate",
        "fuse-qdq": "fuse_qdq:FuseQdq",
        "split-padding": "split_padding:SplitPadding",
        "split-sums": "split_sums:SplitSums",
        "gather-channels": "gather_channels:GatherChannels",
        "move-transposes": "move_transposes:MoveTransposes",
        "add-biases": "add_biases:AddBiases",
        "state-sizes": "state_sizes:StateSizes",
        "fold-moves": "fold_moves:FoldMoves",
        "fold-scales": "fold_scales:FoldScales",
        "fold-transposes": "fold_transposes:FoldTransposes",
        "fold-input-scales": "fold_input_scales:FoldInputScales",
        "remove-duplicates": "remove_duplicates:RemoveDuplicates",
        "remove-casts": "remove_casts:RemoveCasts",
        "simplify-slices": "simplify_slices:SimplifySlices",
        "simplify-splits": "simplify_splits:SimplifySplits",
        "simplify-pads": "simplify_pads:SimplifyPads",
        "clamp-to-relu": "clamp_to_relu:ClampToRelu",
        "fuse-squared-difference": "fuse_squared_difference:FuseSquaredDifference",
        "fuse-rsqrt": "fuse_rsqrt:FuseRsqrt",
        "merge-reductions": "merge_reductions:MergeReductions",
        "merge-scales": "merge_scales:MergeScales",
        "remove-neutral": "remove_neutral:RemoveNeutral",
        "matmul-to-fully-connected": "matmul_to_fully_connected:MatmulToFullyConnected",
        "fully-connected-to-matmul": "fully_connected_to_matmul:FullyConnectedToMatmul",
        "join-layers": "join_layers:JoinLayers",
        "move-reshapes": "move_reshapes:MoveReshapes",
        "set-batch": "set_batch:SetBatch",
        "channels-last": "channels_last:ChannelsLast",
        "remove-fake-quant": "remove_fake_quant:RemoveFakeQuant",
        "recognise-recurrent": "recognise_recurrent:RecogniseRecurrent",
        "recognise-unrolled": "recognise_unrolled:RecogniseUnrolled",
        "unroll-lstm": "unroll_lstm:UnrollLstm",
        "recognise-activations": "recognise_activations:RecogniseActivations",
        "recognise-softmax": "recognise_softmax:RecogniseSoftmax",
        "recognise-rope": "recognise_rope:RecogniseRope",
        "sparsify": "sparsify:Sparsify",
        "compress-weights": "compress_weights:CompressWeights",
        "encode-weights": "encode_weights:EncodeWeights",
        "recognise-norms": "recognise_norms:RecogniseNorms",
    },
)


def pass_names() -> tuple[str, ...]:
    """Names of all passes over whole networks."""
    return tuple(PASSES.classes)


def make(name: str, **options: object) -> Pass:
    """A pass over whole networks by name; raises as `PassTable.make`."""
    return PASSES.make(name, **options)
