"""Quantization-aware training: insert fake quantization into an exported module, and convert it after the training."""

from __future__ import annotations

import copy
from typing import Any, TypeGuard

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from edgecore.errors import CompileError
from edgecore.ir.failures import failures_named
from edgecore.plugin import QuantizerRecipe
from edgecore.quantize.plan import Plan, recipes_of
from edgecore.quantize.pt2e import convert, functional_copy
from edgecore.quantize.rules import check_rules, mark
from edgecore.quantize.select import SelectingQuantizer

_PREPARED = "edgecore_prepared_for_training"
"""Key in a module's `meta` that marks a result of `prepare_training`."""


def prepare_training(exported: ExportedProgram, plan: Plan) -> GraphModule:
    """Insert fake quantization into a program.

    Args:
        exported: The program, exported in training mode; it is not changed.
        plan: The recipes and rules of each backend.

    Returns:
        A module in training mode, whose parameters can be trained.

    Raises:
        CompileError: A recipe has no quantization-aware training.
    """
    from torchao.quantization.pt2e import allow_exported_model_train_eval
    from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

    check_rules(plan, {"forward": exported})
    program, _ = functional_copy(mark(exported, plan)[0], statistics=False)
    quantizers = []
    for recipe in recipes_of(plan):
        make = recipe.method.make_training_quantizer if isinstance(recipe.method, QuantizerRecipe) else None
        if make is None or recipe.embeddings:
            raise CompileError(
                f"recipe {recipe.name!r} of backend {recipe.backend!r} has no quantization-aware training; use a "
                "recipe that quantizes activations with static ranges, such as 'int8', without embeddings"
            )
        quantizers.append((make(), recipe.selects))
    with failures_named("prepare_qat"):
        module = prepare_qat_pt2e(program.module(), SelectingQuantizer(quantizers))
    allow_exported_model_train_eval(module)
    module.train()
    module.meta[_PREPARED] = True
    return module  # type: ignore[no-any-return]


def is_prepared(model: Any) -> TypeGuard[GraphModule]:
    """Return True if `prepare_training` has returned this module."""
    return isinstance(model, GraphModule) and _PREPARED in model.meta


def convert_trained(model: GraphModule) -> torch.nn.Module:
    """Copy a trained module to eval mode, with quantize and dequantize nodes instead of fake quantization."""
    from torchao.quantization.pt2e import move_exported_model_to_eval

    with failures_named("the conversion of the trained model"):
        module = convert(move_exported_model_to_eval(copy.deepcopy(model)))
    for part in module.modules():
        part.training = False  # set `training` directly, because an exported module refuses `eval()`
    del module.meta[_PREPARED]
    return module
