"""The list of passes that lowering runs, in order; `docs/compiling.md` shows it as a table."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore.passes.decompose import decompose
from edgecore.passes.library.canonicalize_sym_sizes import canonicalize_sym_sizes
from edgecore.passes.library.check_quantization import check_quantization
from edgecore.passes.library.claim_constants import claim_constants
from edgecore.passes.library.copy_before_writes import copy_before_writes
from edgecore.passes.library.crop_padding_only_taps import crop_padding_only_taps
from edgecore.passes.library.dealias_outputs import dealias_outputs
from edgecore.passes.library.fit_scales import fit_scales
from edgecore.passes.library.fold_constants import fold_constants
from edgecore.passes.library.functionalize import functionalize
from edgecore.passes.library.fuse_batch_norm import fuse_batch_norm
from edgecore.passes.library.fuse_integers import fuse_integers
from edgecore.passes.library.hoist_selects import hoist_selects
from edgecore.passes.library.inline_regions import inline_regions
from edgecore.passes.library.lift_body_constants import lift_body_constants
from edgecore.passes.library.merge_common_subexpressions import merge_common_subexpressions
from edgecore.passes.library.merge_views import merge_views
from edgecore.passes.library.pack_weights import pack_weights
from edgecore.passes.library.preserve_shared_buffers import preserve_shared_buffers
from edgecore.passes.library.remove_identities import remove_identities
from edgecore.passes.library.rewrite_integer_matmuls import rewrite_integer_matmuls
from edgecore.passes.library.rewrite_torchao import rewrite_torchao
from edgecore.passes.library.separate_writes import separate_writes
from edgecore.passes.pass_list import NamedPass, PassContext, PassList


def _decompose(program: ExportedProgram, context: PassContext) -> ExportedProgram:
    return decompose(program, context.preserve_for(program), context.rewrites)


def _fuse_integers(program: ExportedProgram, context: PassContext) -> ExportedProgram:
    return fuse_integers(program) if context.has_own_kernels else program


def _preserve_shared_buffers(program: ExportedProgram, context: PassContext) -> ExportedProgram:
    return preserve_shared_buffers(program, context.written_buffers)


EDGE_PASSES = PassList(
    (
        NamedPass(
            "inline_regions",
            inline_regions,
            "Nothing is under `no_grad()` or a disabled `autocast()`.",
            "there are regions",
            stage="exported",
        ),
        NamedPass(
            "lift_body_constants",
            lift_body_constants,
            "Branches and loop bodies hold no tensors.",
            "there is control flow",
            stage="exported",
        ),
        NamedPass(
            "separate_writes",
            separate_writes,
            "Only `copy_` writes arguments of custom operators.",
            "operators write arguments",
            stage="exported",
        ),
        NamedPass("claim_constants", claim_constants, "What the model writes is a buffer.", stage="exported"),
        NamedPass("functionalize", functionalize, "No operator writes into its arguments.", stage="exported"),
        NamedPass(
            "rewrite_torchao",
            rewrite_torchao,
            "torchao's weights are plain tensors with dequantize nodes.",
            "`quantize_` was used",
            stage="exported",
        ),
        NamedPass(
            "rewrite_integer_matmuls",
            rewrite_integer_matmuls,
            "Linear layers read int8 weights by a dequantize node.",
            "`quantize_` was used",
            stage="exported",
        ),
        NamedPass(
            "check_quantization",
            check_quantization,
            "Scales are finite, and zero points are in range.",
            "the model is quantized",
            stage="exported",
        ),
        NamedPass(
            "fit_scales",
            fit_scales,
            "In units of a layer's sums, its bias is an integer of 32 bits.",
            "the model is quantized",
            stage="exported",
        ),
        NamedPass(
            "preserve_shared_buffers",
            _preserve_shared_buffers,
            "A buffer that any method writes is state in every method.",
            stage="methods",
            needs_context=True,
        ),
        NamedPass(
            "decompose",
            _decompose,
            "Every operator is in the edge dialect, or preserved for a backend.",
            needs_context=True,
        ),
        NamedPass(
            "remove_identities",
            remove_identities,
            "Each copy, view, cast and requantization changes something.",
        ),
        NamedPass("hoist_selects", hoist_selects, "A part of a tensor is taken before its reshapes and permutations."),
        NamedPass("merge_views", merge_views, "A chain of reshapes, or of permutations, is one node."),
        NamedPass(
            "merge_common_subexpressions", merge_common_subexpressions, "Equal calls of pure operators are one node."
        ),
        NamedPass(
            "canonicalize_sym_sizes", canonicalize_sym_sizes, "Each symbolic size is one node, read from an input."
        ),
        NamedPass(
            "fold_constants",
            fold_constants,
            "Operators on constants are folded, but for large results and dequantized weights.",
        ),
        NamedPass(
            "fuse_batch_norm",
            fuse_batch_norm,
            "A batch norm after a convolution is part of its weights.",
        ),
        NamedPass(
            "crop_padding_only_taps",
            crop_padding_only_taps,
            "No outer row or column of a constant kernel meets only padding.",
        ),
        NamedPass(
            "decompose_undelegated",
            _decompose,
            "Every operator is in the edge dialect.",
            "an operator was preserved",
            stage="undelegated",
            needs_context=True,
        ),
        NamedPass(
            "remove_undelegated_identities",
            remove_identities,
            "Each copy, view, cast and requantization changes something.",
            stage="undelegated",
        ),
        NamedPass(
            "fuse_integers",
            _fuse_integers,
            "Operators on quantized values compute with integers.",
            "the runtime is `edgecore`",
            stage="undelegated",
            needs_context=True,
        ),
        NamedPass(
            "pack_weights", pack_weights, "Quantized weights outside delegates are packed integers.", stage="memory"
        ),
        NamedPass(
            "dealias_outputs",
            dealias_outputs,
            "No result shares memory with another result or an input.",
            stage="memory",
        ),
        NamedPass(
            "copy_before_writes",
            copy_before_writes,
            "Nothing reads the old content of a written argument.",
            "operators write arguments",
            stage="memory",
        ),
    )
)
"""The default passes.

A program with 3-d convolutions goes through the stage `edge` twice. The first round preserves these convolutions, so
that `fuse_batch_norm` finds them; the second round decomposes them into 2-d convolutions. If a backend asked to
preserve a 3-d convolution and then did not delegate it, the stage `edge` runs again instead of the stage `undelegated`.
"""
