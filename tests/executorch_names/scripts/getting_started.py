"""Getting started: export, lower to XNNPACK, run, compare with eager."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

# %% export and lower
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten()).eval()
sample_inputs = (torch.randn(1, 3, 8, 8),)
et_program = to_edge_transform_and_lower(
    torch.export.export(model, sample_inputs), partitioner=[XnnpackPartitioner()]
).to_executorch()
with open("model.pte", "wb") as f:
    f.write(et_program.buffer)

# %% run and compare with PyTorch
runtime = Runtime.get()
program = runtime.load_program("model.pte")
method = program.load_method("forward")
output = method.execute([sample_inputs[0]])
assert "XnnpackBackend" in method.metadata.backend_names()
assert torch.allclose(output[0], model(*sample_inputs), rtol=1e-3, atol=1e-5)
