"""Memory planning: inputs and outputs in arenas or not, pools by operator, the memory of a program as a trace."""

import json

import executorch.exir as exir
import torch
from executorch.exir.memory_planning import (
    MemoryAlgoResult,
    MemoryPlanningAlgorithmSuite,
    SpecAllocResult,
    greedy,
    naive,
)
from executorch.exir.passes import MemoryPlanningPass
from executorch.util.activation_memory_profiler import generate_memory_trace
from torch.export import export
from torch.export.exported_program import ExportGraphSignature
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult


# %% a pass of one's own
class CustomPoolMemoryPlanningPass(MemoryPlanningPass):
    def run(self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None) -> PassResult:
        for subgm in graph_module.modules():
            if not isinstance(subgm, GraphModule):
                continue
            for node in subgm.graph.nodes:
                if node.op == "placeholder":
                    node.meta["spec"].mem_id = 1
                    continue
                if node.op != "call_function":
                    continue
                if node.target == torch.ops.aten.add.out:
                    node.meta["spec"].mem_id = 2
                elif node.target == torch.ops.aten.mul.out:
                    node.meta["spec"].mem_id = 1
        return super().run(graph_module, graph_signature)


class SumsAndProducts(torch.nn.Module):
    def forward(self, x, y):
        z = (x + y) * y
        return torch.mm(z + x, z)


inputs = (torch.randn(16, 16), torch.randn(16, 16))


def edge_program():
    return exir.to_edge(export(SumsAndProducts(), inputs))


# %% inputs and outputs in arenas or not
program = edge_program().to_executorch(
    exir.ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=True)
    )
)
plan = program.executorch_program.execution_plan[0]
assert [plan.values[index].val.allocation_info is None for index in (*plan.inputs, *plan.outputs)] == [
    True,
    True,
    False,
]

# %% pools by operator
program = edge_program().to_executorch(
    exir.ExecutorchBackendConfig(memory_planning_pass=CustomPoolMemoryPlanningPass(memory_planning_algo=greedy))
)
pools = {str(node.target): node.meta["spec"].mem_id for node in program.exported_program().graph.nodes
         if node.op == "call_function"}  # fmt: skip
assert pools == {"aten.add.Tensor": 2, "aten.mul.Tensor": 1, "aten.mm.default": 1}, pools
sizes = program.executorch_program.execution_plan[0].non_const_buffer_sizes
assert len(sizes) == 3 and sizes[2] >= 1024

# %% several algorithms
suite = MemoryPlanningAlgorithmSuite([naive, greedy])
smallest = edge_program().to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(suite)))
largest = edge_program().to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(naive)))
one, other = (p.executorch_program.execution_plan[0].non_const_buffer_sizes[1] for p in (smallest, largest))
assert one < other

# %% memory as a trace
generate_memory_trace(
    executorch_program_manager=program, chrome_trace_filename="memory_profile.json", enable_memory_offsets=True
)
with open("memory_profile.json") as file:
    assert json.load(file)


# %% an algorithm of one's own
def from_the_end(alignment, specs, graph_module, graph_signature, extra_padding=0):
    result = MemoryAlgoResult(spec_dict={}, bufsizes=[0, 0])
    for spec in sorted(specs, key=lambda spec: spec.lifetime[1], reverse=True):
        spec.realign(alignment)
        result.spec_dict[spec] = SpecAllocResult(mem_id=1, mem_obj_id=0, mem_offset=result.bufsizes[1])
        result.bufsizes[1] += spec.allocated_memory + extra_padding
    assert list(graph_module.graph.nodes) and graph_signature.user_inputs
    return result


own = edge_program().to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(from_the_end)))
assert own.executorch_program.execution_plan[0].non_const_buffer_sizes[1] == other
