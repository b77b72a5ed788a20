"""The flow in one call: recipes that are joined, stages that did not run, inputs that are missing."""

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig

from edgecore import stability
from edgecore.errors import CompileError, NoEffectWarning
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.executorch.export.export import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
    export,
)
from edgecore.pipeline import EdgeCompileConfig


def test_a_session_of_two_methods_runs_each_with_its_inputs():
    inputs = {"double": [(torch.ones(2),)], "negate": [(torch.ones(3),)]}

    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    class Negate(torch.nn.Module):
        def forward(self, x):
            return -x

    session = export({"double": Double(), "negate": Negate()}, inputs, constant_methods={"one": 1})
    assert session.get_example_input(method_name="negate")[0].shape == (3,)
    assert session.get_exported_program(method_name="double").example_inputs[0][0].shape == (2,)
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
    strict = ExportRecipe.combine([ExportRecipe(strict=False), ExportRecipe(strict=False)])
    assert not strict.strict
    with pytest.raises(CompileError, match="their strict differ"):
        ExportRecipe.combine([strict, first])
    with pytest.raises(CompileError, match="no recipes to combine"):
        ExportRecipe.combine([])


class Everything:
    """A partitioner that must not be asked."""

    def partition(self, exported_program):
        raise AssertionError

    def ops_to_not_decompose(self, exported_program):
        raise AssertionError


class NoQuantizer:
    """A quantizer that must not be asked."""


def test_only_the_stages_of_the_recipe_run(monkeypatch):
    stages = [StageType.TORCH_EXPORT, StageType.TO_EDGE, StageType.TO_EXECUTORCH]
    lowering = LoweringRecipe([Everything()], [lambda name, program: [1]], [lambda manager: [1]])
    recipe = ExportRecipe("some", QuantizationRecipe([NoQuantizer()]), lowering_recipe=lowering, pipeline_stages=stages)
    monkeypatch.setattr(stability, "_without_effect", set())
    with pytest.warns(NoEffectWarning) as warned:
        session = export(torch.nn.Tanh(), [(torch.ones(2),)], recipe)
    torch.testing.assert_close(session.run_method()[0], torch.ones(2).tanh())
    texts = "\n".join(str(one.message) for one in warned)
    assert "quantizers=...) has no effect in edgecore: no QUANTIZE in pipeline_stages" in texts
    assert "no TO_EDGE_TRANSFORM_AND_LOWER or TO_BACKEND" in texts and len(warned) == 4


def test_a_model_that_is_exported_already_is_not_quantized(tmp_path, monkeypatch):
    monkeypatch.setattr(stability, "_without_effect", set())
    exported = torch.export.export(torch.nn.Tanh(), (torch.ones(2),))
    torch.export.save(exported, tmp_path / "model.pt2")
    recipe = ExportRecipe("some", QuantizationRecipe([NoQuantizer()]))
    for model in (exported, exported.module(), str(tmp_path / "model.pt2")):
        stability._without_effect.clear()
        with pytest.warns(NoEffectWarning, match="give the nn.Module"):
            session = export(model, [(torch.ones(2),)], recipe)
        torch.testing.assert_close(session.run_method()[0], torch.ones(2).tanh())


def test_a_session_runs_with_weights_in_a_file_of_their_own():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    session = export(
        model, [(x,)], ExportRecipe(executorch_backend_config=ExecutorchBackendConfig(external_constants=True))
    )
    torch.testing.assert_close(session.run_method()[0], model(x))


def test_shapes_and_inputs_are_given_by_method():
    x, batch = torch.ones(2, 3), torch.export.Dim("batch", min=1, max=8)
    for shapes in ({"forward": {"input": {0: batch}}}, {"input": {0: batch}}):
        session = export(torch.nn.Tanh(), [(x,)], dynamic_shapes=shapes)
        assert session.run_method("forward", (torch.ones(5, 3),))[0].shape == (5, 3)
    with pytest.raises(CompileError, match="example_inputs has the method 'forwrd', but the program has: forward"):
        export(torch.nn.Tanh(), {"forwrd": [(x,)]})


@pytest.mark.parametrize("in_place", [False, True])
def test_the_layers_that_a_filter_chooses_are_quantized_in_the_given_model_or_in_a_copy(in_place):
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)).eval(), torch.randn(1, 32)
    before = model(x)
    config = AOQuantizationConfig(ao_base_config=Int8WeightOnlyConfig(), filter_fn=lambda module, name: name == "0")
    quantization = QuantizationRecipe(ao_quantization_configs=[config])
    session = export(model, [(x,)], ExportRecipe("int8", quantization, source_transform_in_place=in_place))
    kinds = ["Int8Tensor" if in_place else "Parameter", "Parameter"]
    assert [type(layer.weight).__name__ for layer in model] == kinds
    (result,) = session.run_method()
    assert 0 < (result - before).abs().max() < 0.05
    if in_place:
        torch.testing.assert_close(result, model(x))


def test_programs_are_transformed_before_and_operators_kept_after_they_are_lowered():
    seen = []

    def to_hardswish(method, program):
        (node,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default)
        node.target = torch.ops.aten.hardswish.default
        seen.append(method)
        return program

    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.hardswish.default])
    kept = []
    for lowering in (LoweringRecipe(), LoweringRecipe(edge_compile_config=config)):
        recipe = ExportRecipe("swish", aten_transform_passes=[to_hardswish], lowering_recipe=lowering)
        recipe.pipeline_stages = [StageType.TORCH_EXPORT, StageType.TO_EDGE_TRANSFORM_AND_LOWER]
        program = export(torch.nn.Tanh(), [(torch.ones(2),)], recipe).get_edge_program_manager().exported_program()
        torch.testing.assert_close(program.module()(torch.ones(2)), torch.nn.functional.hardswish(torch.ones(2)))
        kept.append(bool(program.graph.find_nodes(op="call_function", target=torch.ops.aten.hardswish.default)))
    assert kept == [False, True] and seen == ["forward", "forward"]


def test_a_session_saves_its_file_in_its_folder(tmp_path):
    export(torch.nn.Tanh(), [(torch.ones(2),)], artifact_dir=str(tmp_path)).save_to_pte("model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pte"]
