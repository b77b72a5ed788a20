"""Backends and delegates: a backend and partitioners of a script, and the three flows that lower to it."""

import torch
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.backend.backend_api import LoweredBackendModule, to_backend
from executorch.exir.backend.backend_details import BackendDetails, CompileSpec, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.program import EdgeProgramManager
from torch.export import export


class BackendWithCompilerDemo(BackendDetails):
    @staticmethod
    def preprocess(edge_program, compile_specs):
        names = [str(node.target) for node in edge_program.graph.nodes if node.op == "call_function"]
        handles = {index: (index,) for index, _ in enumerate(names)}
        return PreprocessResult(processed_bytes="#".join(names).encode(), debug_handle_map=handles)


class AddMulPartitionerDemo(Partitioner):
    def __init__(self):
        self.delegation_spec = DelegationSpec(BackendWithCompilerDemo.__name__, [CompileSpec("max_value", bytes([4]))])

    def partition(self, exported_program):
        partition_tags, tag, inside = {}, 0, False
        for node in exported_program.graph.nodes:
            supported = node.target in (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
            tag += supported and not inside
            inside = supported
            if supported:
                node.meta["delegation_tag"] = f"tag{tag}"
                partition_tags[f"tag{tag}"] = self.delegation_spec
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=partition_tags)


# %% lower a whole module
class Sine(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x)


lowered_module: LoweredBackendModule = to_backend(
    "BackendWithCompilerDemo", to_edge(export(Sine(), (torch.ones(1),))).exported_program(), []
)
assert lowered_module.processed_bytes == b"aten.sin.default"

# %% save the delegate
with open("delegate.pte", "wb") as f:
    f.write(lowered_module.buffer())


# %% compose a module with delegates
class CompositeModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.ones(1) * 0.3
        self.lowerable = lowered_module

    def forward(self, x):
        a = self.lowerable(x)
        b = self.lowerable(a)
        return a, b, torch.add(torch.add(a, b), self.bias)


composite = to_edge(export(CompositeModel(), (torch.ones(1),))).to_executorch()
assert len(composite.executorch_program.execution_plan[0].delegates) == 2
with open("composite.pte", "wb") as f:
    f.write(composite.buffer)


# %% lower an edge program by a partitioner
class Model(torch.nn.Module):
    def forward(self, x, y):
        x = x + y
        x = x * y
        x = x - y
        x = x / y
        x = x * y
        return x + y


inputs = (torch.randn(1, 3), torch.randn(1, 3))
edge: EdgeProgramManager = to_edge(export(Model(), inputs))
parts = edge.to_backend(AddMulPartitionerDemo()).to_executorch().executorch_program.execution_plan[0]
assert [len(parts.delegates), parts.delegates[0].compile_specs[0].key] == [2, "max_value"]

# %% transform and lower at once
at_once = to_edge_transform_and_lower(export(Model(), inputs), partitioner=[AddMulPartitionerDemo()])
assert len(at_once.to_executorch().executorch_program.execution_plan[0].delegates) == 2

# %% lower an exported program by a partitioner
delegated = to_backend(edge.exported_program(), AddMulPartitionerDemo())
torch.testing.assert_close(delegated.module()(*inputs), Model()(*inputs))


# %% two backends in turn
class OtherDemo(BackendWithCompilerDemo):
    pass


class OneOperatorPartitioner(Partitioner):
    def __init__(self, operator, backend_id):
        self.operator, self.delegation_spec = operator, DelegationSpec(backend_id, [])

    def partition(self, exported_program):
        tags = {}
        for node in exported_program.graph.nodes:
            if node.target == self.operator:
                node.meta["delegation_tag"] = node.name
                tags[node.name] = self.delegation_spec
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


def delegate_ids(edge_manager):
    return sorted(
        delegate.id for delegate in edge_manager.to_executorch().executorch_program.execution_plan[0].delegates
    )


first = to_edge(export(Model(), inputs)).to_backend(
    OneOperatorPartitioner(torch.ops.aten.sub.Tensor, "BackendWithCompilerDemo")
)
both = first.to_backend(OneOperatorPartitioner(torch.ops.aten.div.Tensor, "OtherDemo"))
assert delegate_ids(both) == ["BackendWithCompilerDemo", "OtherDemo"]


# %% one partitioner for two backends
class TwoBackendsPartitioner(Partitioner):
    def partition(self, exported_program):
        backends = {torch.ops.aten.sub.Tensor: "BackendWithCompilerDemo", torch.ops.aten.div.Tensor: "OtherDemo"}
        tags = {}
        for node in exported_program.graph.nodes:
            if node.target in backends:
                node.meta["delegation_tag"] = node.name
                tags[node.name] = DelegationSpec(backends[node.target], [])
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


assert delegate_ids(to_edge(export(Model(), inputs)).to_backend(TwoBackendsPartitioner())) == [
    "BackendWithCompilerDemo",
    "OtherDemo",
]
