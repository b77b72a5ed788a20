"""Intermediate representations: from a module to the edge dialect, and the schemas of its operators."""

import torch
from executorch import exir
from executorch.exir.dialects._ops import ops as exir_ops


# %% from the ATen dialect to the edge dialect
class MyModule(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) + 1


tracing_inputs = (torch.rand(2, 2),)
aten_dialect_program = torch.export.export(MyModule(), tracing_inputs)
edge_dialect_program: exir.EdgeProgramManager = exir.to_edge(aten_dialect_program)
print(edge_dialect_program.exported_program())

# %% the schema of an edge operator
sigmoid = exir_ops.edge.aten.sigmoid.default
assert str(sigmoid._schema) == "aten::sigmoid(Tensor self) -> Tensor"
assert sigmoid._schema.arguments[0].name == "self"
