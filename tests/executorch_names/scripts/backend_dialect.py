"""Backend dialect: an operator that stands for a pattern, and a pass that puts it there."""

import torch
from executorch.exir import to_edge
from executorch.exir.dialects._ops import bind_pattern_to_op
from executorch.exir.pass_base import ExportPass
from torch.export import export
from torch.library import Library

# %% an operator that stands for a pattern
lib = Library("foo_namespace", "DEF")


@bind_pattern_to_op(lib, "add_relu(Tensor self, Tensor other) -> Tensor")
def pattern(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.ops.aten.add.Tensor(x, y)
    return torch.ops.aten.relu.default(z)


# %% a pass that puts the operator there
class AddReluFusionPass(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != torch.ops.aten.relu.default or args[0].target != torch.ops.aten.add.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(torch.ops.foo_namespace.add_relu.default, args[0].args, {}, meta)


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)


inputs = (torch.randn(4), torch.randn(4))
program = to_edge(export(Model(), inputs)).transform([AddReluFusionPass()]).exported_program()
assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == ["foo_namespace.add_relu.default"]
torch.testing.assert_close(program.module()(*inputs), torch.relu(inputs[0] + inputs[1]))
