"""ETRecord: written along with lowering, by each of the flows, or afterwards."""

import copy

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import generate_etrecord, parse_etrecord
from executorch.exir.program import to_edge, to_edge_transform_and_lower
from torch.export import export

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
example_inputs = (torch.randn(1, 4),)

# %% a record of to_edge and to_backend
edge_manager = to_edge(export(model, example_inputs), generate_etrecord=True)
edge_manager = edge_manager.to_backend(XnnpackPartitioner())
et_manager = edge_manager.to_executorch()
et_manager.get_etrecord().save("edge_debug.etrecord")
assert parse_etrecord("edge_debug.etrecord").edge_dialect_program is not None

# %% a record of to_edge_transform_and_lower
edge_manager = to_edge_transform_and_lower(
    export(model, example_inputs), partitioner=[XnnpackPartitioner()], generate_etrecord=True
)
edge_manager.to_executorch().get_etrecord().save("debug.etrecord")
targets = {str(node.target) for node in parse_etrecord("debug.etrecord").edge_dialect_program.graph.nodes}
assert "aten.linear.default" in targets or "aten.addmm.default" in targets, targets

# %% a record made afterwards
edge_program = to_edge(export(model, example_inputs, strict=True))
edge_program_copy = copy.deepcopy(edge_program)
executorch_program = edge_program_copy.to_executorch()
generate_etrecord("after.etrecord", edge_program, executorch_program)
assert parse_etrecord("after.etrecord").edge_dialect_program is not None
