"""Quantization: the flow of PT2E with a backend's quantizer, its error, and torchao's quantize_."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.utils import compute_error

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)).eval()
sample_inputs = (torch.randn(1, 3, 16, 16),)

# %% prepare, calibrate, convert
quantizer = XNNPACKQuantizer()
quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
training_gm = torch.export.export(model, sample_inputs).module()
prepared_model = prepare_pt2e(training_gm, quantizer)
for sample in (sample_inputs, (torch.randn(1, 3, 16, 16),)):
    prepared_model(*sample)
quantized_model = convert_pt2e(prepared_model)

# %% lower the quantized model
et_program = to_edge_transform_and_lower(
    torch.export.export(quantized_model, sample_inputs), partitioner=[XnnpackPartitioner()]
).to_executorch()
et_program.save("quantized.pte")
assert len(et_program.executorch_program.execution_plan[0].delegates) == 1

# %% the error of quantization
out_reference, out_quantized = model(*sample_inputs), quantized_model(*sample_inputs)
assert compute_error(out_reference, out_quantized) > 15
(output,) = Runtime.get().load_program("quantized.pte").load_method("forward").execute(list(sample_inputs))
assert compute_error(out_quantized, output) > 20


# %% weights only, and activations rounded at run time
class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 64)
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, words):
        return self.linear(self.embedding(words))


eager_model, words = Words().eval(), torch.randint(0, 20, (1, 5))
expected = eager_model(words)
embedding_config = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
quantize_(eager_model, embedding_config, lambda module, name: isinstance(module, torch.nn.Embedding))
quantize_(eager_model, Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(32)))
program = to_edge_transform_and_lower(
    torch.export.export(eager_model, (words,)), partitioner=[XnnpackPartitioner()]
).to_executorch()
program.save("words.pte")
(output,) = Runtime.get().load_program("words.pte").load_method("forward").execute([words])
assert compute_error(eager_model(words), output) > 20 and compute_error(expected, output) > 10
