"""Building and running with XNNPACK: floating point and quantized, and the options of the partitioner."""

import torch
from executorch.backends.xnnpack.partition.config import LinearConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchProgramManager, to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch.export import export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

# %% lower to XNNPACK
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
sample_inputs = (torch.randn(1, 16),)

edge: EdgeProgramManager = to_edge_transform_and_lower(export(model, sample_inputs), partitioner=[XnnpackPartitioner()])
assert "lowered_module_0" in str(edge.exported_program().graph_module)

# %% save the program
exec_prog: ExecutorchProgramManager = edge.to_executorch()
with open("fp32.pte", "wb") as file:
    exec_prog.write_to_file(file)


# %% quantize in PT2E
def quantize(model, example_inputs):
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=False))
    prepared = prepare_pt2e(model, quantizer)
    prepared(*example_inputs)
    return convert_pt2e(prepared)


quantized = quantize(export(model, sample_inputs).module(), sample_inputs)
edge = to_edge_transform_and_lower(
    export(quantized, sample_inputs),
    compile_config=EdgeCompileConfig(_check_ir_validity=False),
    partitioner=[XnnpackPartitioner()],
)
with open("qs8.pte", "wb") as file:
    edge.to_executorch().write_to_file(file)

# %% run both
for name, tolerance in (("fp32.pte", 1e-4), ("qs8.pte", 0.3)):
    (output,) = Runtime.get().load_program(name).load_method("forward").execute(list(sample_inputs))
    torch.testing.assert_close(output, model(*sample_inputs), atol=tolerance, rtol=tolerance)

# %% options of the partitioner
chosen = XnnpackPartitioner(
    configs=[LinearConfig], config_precisions=ConfigPrecisionType.FP32, per_op_mode=True, verbose=False
)
graph = to_edge_transform_and_lower(export(model, sample_inputs), partitioner=[chosen]).exported_program().graph_module
assert len([name for name, _ in graph.named_children() if name.startswith("lowered_module")]) == 2
