"""The flow in one call: recipes that are joined, stages that did not run, inputs that are missing."""

import pytest
import torch

from edgecore.compat.config import ExecutorchBackendConfig
from edgecore.compat.export import ExportRecipe, LoweringRecipe, QuantizationRecipe, StageType, export
from edgecore.errors import CompileError


def test_a_session_of_two_methods_runs_each_with_its_inputs():
    inputs = {"double": [(torch.ones(2),)], "negate": [(torch.ones(3),)]}

    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    class Negate(torch.nn.Module):
        def forward(self, x):
            return -x

    session = export({"double": Double(), "negate": Negate()}, inputs, constant_methods={"one": 1})
    assert session.run_method("double")[0].tolist() == [2, 2] and session.run_method("negate")[0].tolist() == [-1] * 3
    assert session.get_executorch_program().execution_plan[0].name == "double"


def test_a_stage_that_did_not_run_has_no_result():
    recipe = ExportRecipe(pipeline_stages=[StageType.TORCH_EXPORT])
    session = export(torch.nn.Tanh(), [(torch.ones(2),)], recipe)
    assert session.get_exported_program().graph.nodes
    with pytest.raises(CompileError, match="the stage 'to_executorch' did not run"):
        session.get_pte_buffer()


def test_a_module_without_example_inputs_is_an_error():
    with pytest.raises(CompileError, match="'forward' has no example inputs"):
        export(torch.nn.Tanh())


def test_combined_recipes_have_the_parts_of_all():
    first, second = ExportRecipe("a", QuantizationRecipe([1])), ExportRecipe("b", QuantizationRecipe([2]))
    lowering = ExportRecipe("c", lowering_recipe=LoweringRecipe(partitioners=[3]))
    combined = ExportRecipe.combine([first, lowering, second])
    assert combined.name == "a_c_b" and combined.quantization_recipe.quantizers == [1, 2]
    assert combined.lowering_recipe.partitioners == [3] and combined.executorch_backend_config is None
    config = ExportRecipe(executorch_backend_config=ExecutorchBackendConfig(segment_alignment=4096))
    assert ExportRecipe.combine([first, config]).executorch_backend_config.segment_alignment == 4096
    with pytest.raises(CompileError, match="executorch_backend_config differ"):
        ExportRecipe.combine([config, ExportRecipe(executorch_backend_config=ExecutorchBackendConfig())])
    by_method = ExportRecipe(lowering_recipe=LoweringRecipe(partitioners={"forward": [4]}))
    with pytest.raises(CompileError, match="partitioners by method"):
        ExportRecipe.combine([lowering, by_method])
