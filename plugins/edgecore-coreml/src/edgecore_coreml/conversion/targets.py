"""Choose the oldest Apple system (deployment target) that supports what a partition needs, and give the reason."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.sdk import Constants, NodeQuery, argument
from edgecore_coreml.conversion.quantized import is_stored, needed_system
from edgecore_coreml.options import FUNCTIONS_TARGET, TARGETS, CoreMLOptions
from edgecore_coreml.weights.palettes import Palette

_GROUPED_SHAPES = "iOS18"  # the first iOS version that allows enumerated shapes of several inputs
_STATES = "iOS18"  # the first iOS version with states
_HALF = "iOS16"  # the first iOS version that allows float16 inputs and outputs
_VARIABLE = "iOS17"  # the first iOS version whose transposed convolutions accept computed weights
_ORDER = {target: index for index, target in enumerate(TARGETS)}


def candidates(
    program: ExportedProgram, options: CoreMLOptions, palettes: Mapping[str, Palette]
) -> list[tuple[str, str]]:
    """List (deployment target, reason for it) for each target to try, the best first; the reason is "" for iOS 15.

    Args:
        program: The partition.
        options: The options. Their `minimum_deployment_target`, if set, is the only target.
        palettes: Maps the name of a weight's placeholder to the weight's palette.

    Raises:
        CompileError: The user's deployment target lacks a feature that the partition needs.
    """
    needed, reason = _oldest(program, options, palettes)
    chosen = options.minimum_deployment_target
    if chosen is None:
        return [(needed, reason), *((target, "operators") for target in list(TARGETS)[_ORDER[needed] + 1 :])]
    if _ORDER[chosen] < _ORDER[needed]:
        raise CompileError(
            f"minimum_deployment_target is {chosen}, and the model needs {needed}, the first with {reason}; "
            f"choose {needed}"
        )
    return [(chosen, reason if chosen == needed else "as chosen")]


def _oldest(program: ExportedProgram, options: CoreMLOptions, palettes: Mapping[str, Palette]) -> tuple[str, str]:
    """Return the oldest deployment target that supports a partition with `options`, and the feature that needs it."""
    constants = Constants(program)
    vals = [node.meta.get("val") for node in program.graph.nodes]
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    needs = [needed_system(node, constants.has) for node in calls]
    for palette in palettes.values():
        groups = " for groups of rows" if palette.group else ""
        needs.append((palette.target, f"palettes of {palette.bits} bits{groups}"))
    for target, reason, is_needed in (
        (
            _VARIABLE,
            "transposed convolutions of variable weights",
            any(_is_variable(node, constants) for node in calls),
        ),
        (FUNCTIONS_TARGET, "one model of methods", options.multimethod_weight_sharing_strategy == "POSITIONAL"),
        (_STATES, "states", bool(program.graph_signature.buffers_to_mutate)),
        (_GROUPED_SHAPES, "enumerated shapes of several inputs", len(options.enumerated_shapes or {}) > 1),
        (_HALF, "float16", any(isinstance(val, torch.Tensor) and val.dtype == torch.float16 for val in vals)),
    ):
        needs.append((target, reason) if is_needed else None)
    return max(filter(None, needs), key=lambda need: _ORDER[need[0]], default=("iOS15", ""))


def _is_variable(node: Node, constants: Constants) -> bool:
    """Return True for a transposed convolution whose weight is computed at run time."""
    if node.target is not torch.ops.aten.convolution.default or not argument(node, "transposed"):
        return False
    return not is_stored(NodeQuery(node, constants), argument(node, "weight"))
