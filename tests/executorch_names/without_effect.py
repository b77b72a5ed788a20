"""The arguments of ExecuTorch that edgecore accepts without effect: for each, a call that warns of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import pytest
import torch

import edgecore
from edgecore import stability
from edgecore.devtools import Inspector
from edgecore.errors import NoEffectWarning
from edgecore.executorch.exir import passes
from edgecore.executorch.exir.backend import NamedDataStore
from edgecore.executorch.exir.config import NO_EFFECT
from edgecore.executorch.exir.memory import MemoryPlanningPass
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.executorch.export.export import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
    export,
)
from edgecore.executorch.runtime.pybindings import (
    _load_bundled_program_from_buffer,
    _load_for_executorch,
    _load_for_executorch_from_buffer,
)
from edgecore.executorch.runtime.runtime import Runtime, Verification
from edgecore.format.etdump import ETDump, write_etdump
from edgecore.pipeline import EdgeCompileConfig, serialize_from_bundled_program_to_flatbuffer

X = torch.ones(2)
SUBJECT = re.compile(r"(.+?) has no effect in edgecore: (.+)")


@cache
def finished() -> Any:
    exported = torch.export.export(torch.nn.Tanh(), (X,))
    return edgecore.to_edge(exported, generate_etrecord=True).to_executorch()


def buffer() -> bytes:
    return bytes(finished().buffer)


def bundle() -> bytes:
    suite = edgecore.MethodTestSuite("forward", [edgecore.MethodTestCase((X,), X.tanh())])
    return serialize_from_bundled_program_to_flatbuffer(edgecore.BundledProgram(finished(), [suite]))


def inspector(**settings: Any) -> Inspector:
    record = finished().get_etrecord()
    record.update_representative_inputs([X])
    return Inspector(etdump_data=write_etdump(ETDump()), etrecord=record, **settings)


def export_with(stages: list[StageType] | None = None, model: Any = None, **settings: Any) -> None:
    export(model or torch.nn.Tanh(), [(X,)], ExportRecipe("recipe", pipeline_stages=stages, **settings))


def fold(**settings: Any) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2), (X,)).run_decompositions({})
    passes.constant_prop_pass(program, **settings)


def call(kind: Callable[[], Any]) -> None:
    kind()(torch.export.export(torch.nn.Tanh(), (X,)).graph_module)


EXPORT = [StageType.TORCH_EXPORT]
LOWERING = {
    "edge_transform_passes": LoweringRecipe(edge_transform_passes=[lambda name, program: []]),
    "edge_manager_transform_passes": LoweringRecipe(edge_manager_transform_passes=[lambda manager: []]),
    "partitioners": LoweringRecipe(partitioners=[object()]),
}

WITHOUT_EFFECT: Mapping[str, Callable[[], Any]] = {
    "EdgeCompileConfig(_check_ir_validity=False)": lambda: EdgeCompileConfig(_check_ir_validity=False),
    "EdgeCompileConfig(_skip_dim_order=True)": lambda: EdgeCompileConfig(_skip_dim_order=True),
    **{
        f"ExecutorchBackendConfig({name}=...)": partial(ExecutorchBackendConfig, **{name: "another value"})
        for name in NO_EFFECT
    },
    "ExportRecipe(quantization_recipe=...)": lambda: export_with(
        model=torch.export.export(torch.nn.Tanh(), (X,)), quantization_recipe=QuantizationRecipe([object()])
    ),
    "ExportRecipe(...ao_quantization_configs=...)": lambda: export_with(
        EXPORT, quantization_recipe=QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(object())])
    ),
    "ExportRecipe(...quantizers=...)": lambda: export_with(EXPORT, quantization_recipe=QuantizationRecipe([object()])),
    **{
        f"ExportRecipe(...{name}=...)": partial(export_with, EXPORT, lowering_recipe=recipe)
        for name, recipe in LOWERING.items()
    },
    "MemoryPlanningPass(allow_lifetime_and_storage_overlap=True)": lambda: MemoryPlanningPass(
        allow_lifetime_and_storage_overlap=True
    ),
    "MemoryPlanningPass(alloc_mutable_buffers=False)": lambda: MemoryPlanningPass(alloc_mutable_buffers=False),
    "MemoryPlanningPass.run_multimethod": lambda: type("P", (MemoryPlanningPass,), {"run_multimethod": print}),
    "NamedDataStore.add_named_data(tensor_layout=...)": lambda: NamedDataStore().add_named_data(
        "key", b"1", tensor_layout=object()
    ),
    "constant_prop_pass(custom_skip_targets=...)": lambda: fold(custom_skip_targets=set()),
    "constant_prop_pass(_skip_dim_order=False)": lambda: fold(_skip_dim_order=False),
    "ConstraintBasedSymShapeEvalPass()": lambda: call(passes.ConstraintBasedSymShapeEvalPass),
    "HintBasedSymShapeEvalPass()": lambda: call(passes.HintBasedSymShapeEvalPass),
    "DuplicateDynamicQuantChainPass()": lambda: call(passes.DuplicateDynamicQuantChainPass),
    "Verification.Minimal": lambda: _load_for_executorch(buffer(), program_verification=Verification.Minimal),
    "load_program(debug_buffer_size=...)": lambda: Runtime.get().load_program(buffer(), debug_buffer_size=64),
    "ExecuTorchModule(clone_outputs=False)": lambda: _load_for_executorch_from_buffer(buffer()).run_method(
        "forward", [X], clone_outputs=False
    ),
    "_load_bundled_program_from_buffer(non_const_pool_size=...)": lambda: _load_bundled_program_from_buffer(
        bundle(), non_const_pool_size=64
    ),
    "Inspector(enable_module_hierarchy=True)": lambda: inspector(enable_module_hierarchy=True),
    "Inspector.calculate_numeric_gap(disable_debug_handle_valdiation=True)": lambda: inspector().calculate_numeric_gap(
        "MSE", disable_debug_handle_valdiation=True
    ),
    "XnnpackPartitioner(enable_bf16=True)": lambda: pytest.importorskip(
        "edgecore_xnnpack.executorch.partitioner"
    ).XnnpackPartitioner(enable_bf16=True),
}
"""The argument, as its warning names it, and a call that gives it."""

ALSO: tuple[Callable[[], Any], ...] = (
    lambda: _load_for_executorch_from_buffer(buffer(), program_verification=Verification.Minimal),
    lambda: Runtime.get().load_program(buffer(), verification=Verification.Minimal),
    lambda: _load_for_executorch_from_buffer(buffer()).forward([X], clone_outputs=False),
    lambda: _load_for_executorch_from_buffer(buffer())([X], clone_outputs=False),
)
"""Other calls that give one of these arguments."""


def warned(call: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """Return the argument, the reason and the file of each `NoEffectWarning` that a call issues."""
    before = set(stability._without_effect)
    stability._without_effect.clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        stability._without_effect.clear()
        stability._without_effect.update(before)
    own = [warning for warning in caught if warning.category is NoEffectWarning]
    return [(*SUBJECT.fullmatch(str(warning.message)).groups(), warning.filename) for warning in own]


def markdown() -> str:
    """Return the table of `docs/executorch.md`: each argument, and why edgecore does not need it."""
    rows = []
    functions = [argument.partition("(")[0] for argument in WITHOUT_EFFECT]
    for argument, function in zip(WITHOUT_EFFECT, functions, strict=True):
        ((_, reason, _),) = warned(WITHOUT_EFFECT[argument])
        several = functions.count(function) > 1
        if several and f"| **`{function}`** | |" not in rows:
            rows.append(f"| **`{function}`** | |")
        shown = argument.removeprefix(f"{function}(").removesuffix(")") if several else argument
        rows.append(f"| `{shown}` | {reason} |")
    return "\n".join(["| argument | why edgecore does not need it |", "|---|---|", *rows])
