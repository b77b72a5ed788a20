"""The flow in one call: a recipe, a session, quantization, and the record for developer tools."""

import executorch.export
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.exir.pass_base import ExportPass
from executorch.export import (
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
    export,
    recipe_registry,
)

# %% a recipe with a partitioner
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
example_inputs = [(torch.randn(2, 8),) for _ in range(4)]
recipe = ExportRecipe(lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner()]))
session = executorch.export(
    model=model, example_inputs=example_inputs, export_recipe=recipe, generate_etrecord=True, name="mlp"
)
torch.testing.assert_close(session.run_method()[0], model(*example_inputs[0]), atol=1e-4, rtol=1e-4)
session.get_etrecord().save("model_debug.etrecord")
session.save_to_pte("mlp")
session.print_delegation_info()

# %% a recipe with a quantizer
quantizer = XNNPACKQuantizer().set_object_type(
    torch.nn.functional.linear, get_symmetric_quantization_config(is_per_channel=True)
)
quantized = ExportRecipe("int8", QuantizationRecipe(quantizers=[quantizer]))
session = export(model, example_inputs, ExportRecipe.combine([quantized, recipe]))
targets = {str(node.target) for node in session.get_exported_program().graph.nodes}
assert any("dequantize_per_channel" in target for target in targets)
torch.testing.assert_close(session.run_method()[0], model(*example_inputs[0]), atol=0.3, rtol=0.3)


# %% stages and passes of a recipe
class ReluToSigmoid(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        new = torch.ops.aten.sigmoid.default if op == torch.ops.aten.relu.default else op
        return super().call_operator(new, args, kwargs, meta)


staged = ExportRecipe(
    lowering_recipe=LoweringRecipe(
        partitioners=[XnnpackPartitioner()], edge_transform_passes=[lambda method, program: [ReluToSigmoid()]]
    ),
    pipeline_stages=[
        StageType.TORCH_EXPORT,
        StageType.TO_EDGE,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
        StageType.TO_BACKEND,
        StageType.TO_EXECUTORCH,
    ],
)
session = export({"run": model}, {"run": example_inputs}, staged, constant_methods={"version": lambda: 3})
expected = model[2](torch.sigmoid(model[0](example_inputs[0][0])))
torch.testing.assert_close(session.run_method("run")[0], expected, atol=1e-4, rtol=1e-4)
assert session.run_method("version", ()) == [3]

# %% recipes of a backend by their types
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
example_inputs = [(torch.randn(2, 32),) for _ in range(4)]
for recipe_type in XNNPackRecipeType:
    session = export(model, example_inputs, ExportRecipe.get_recipe(recipe_type))
    torch.testing.assert_close(session.run_method()[0], model(*example_inputs[0]), atol=0.3, rtol=0.3)
grouped = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
session = export(model, example_inputs, ExportRecipe.get_recipe(grouped, group_size=8))
torch.testing.assert_close(session.run_method()[0], model(*example_inputs[0]), atol=0.3, rtol=0.3)
both = ExportRecipe.combine([ExportRecipe.get_recipe(XNNPackRecipeType.FP32), ExportRecipe.get_recipe(grouped)], "both")
assert both.name == "both" and "xnnpack" in recipe_registry.list_backends()
for arguments, sentence in (
    ({"recipe": grouped, "group_size": 0}, "group_size must be a positive integer; got 0"),
    ({"recipe": XNNPackRecipeType.FP32, "bits": 3}, "the recipe FP32 takes no parameter; got bits"),
    ({"recipe": "fp32"}, "not 'fp32'"),
):
    try:
        ExportRecipe.get_recipe(**arguments)
    except Exception as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(f"a wrong recipe was made: {arguments}")
