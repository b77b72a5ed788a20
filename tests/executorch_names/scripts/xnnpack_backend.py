"""The XNNPACK backend: lower and run a model, options of its partitioner, and its log."""

import logging

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Hardswish(), torch.nn.Flatten(), torch.nn.Linear(288, 4))
model = model.eval()
sample_inputs = (torch.randn(1, 3, 8, 8),)

# %% lower to XNNPACK and write the program
et_program = to_edge_transform_and_lower(
    torch.export.export(model, sample_inputs), partitioner=[XnnpackPartitioner()]
).to_executorch()
with open("xnnpack.pte", "wb") as file:
    et_program.write_to_file(file)
(output,) = Runtime.get().load_program("xnnpack.pte").load_method("forward").execute(list(sample_inputs))
torch.testing.assert_close(output, model(*sample_inputs), atol=1e-4, rtol=1e-4)

# %% each operator in a delegate of its own
graph = (
    to_edge_transform_and_lower(
        torch.export.export(model, sample_inputs), partitioner=[XnnpackPartitioner(per_op_mode=True)]
    )
    .exported_program()
    .graph_module
)
assert len([name for name, _ in graph.named_children() if name.startswith("lowered_module")]) >= 3

# %% only linear layers whose inputs are rounded at run time
graph = (
    to_edge_transform_and_lower(
        torch.export.export(model, sample_inputs), partitioner=[XnnpackDynamicallyQuantizedPartitioner()]
    )
    .exported_program()
    .graph_module
)
assert not [name for name, _ in graph.named_children() if name.startswith("lowered_module")]

# %% the log of the partitioner
logger = logging.getLogger("executorch.backends.xnnpack.partition")
logger.setLevel(logging.DEBUG)
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("[%(levelname)s] %(name)s: %(message)s"))
logger.addHandler(handler)
to_edge_transform_and_lower(torch.export.export(model, sample_inputs), partitioner=[XnnpackPartitioner(verbose=True)])
