"""Compile small models for the tests, and read their blobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

import edgecore
from edgecore.plugin import CompileSpec, PreprocessResult
from edgecore.sdk import PartitionView
from edgecore_vulkan import compiler as compiler_module
from edgecore_vulkan.blob.format import read_graph
from edgecore_vulkan.schema import graph as s


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@dataclass
class Compiled:
    """The report and the delegates of a program; `inputs` are the names of each delegate's inputs."""

    report: str
    results: list[PreprocessResult]
    inputs: list[list[str]]

    @property
    def graphs(self) -> list[s.Graph]:
        return [read_graph(result.blob) for result in self.results]

    @property
    def calls(self) -> list[str]:
        """The names of all calls, without the registry's namespace and `et_vk.prepack`."""
        names = [call.name for graph in self.graphs for call in graph.chain]
        return [name.partition(".")[2] for name in names if name != "et_vk.prepack.default"]


def lowered(model, *inputs: torch.Tensor, runtime: str = "executorch-1.5", dynamic_shapes=None, **options) -> Compiled:
    """Compile a model or function, and return what the compiler of the backend made of it."""
    results: list[PreprocessResult] = []
    names: list[list[str]] = []
    original = compiler_module.preprocess

    def record(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        results.append(original(program, specs))
        names.append([node.name for node in PartitionView(program).inputs])
        return results[-1]

    compiler_module.preprocess = record
    try:
        module = model if isinstance(model, torch.nn.Module) else Function(model)
        backend = edgecore.Backend("vulkan", **options)
        program = edgecore.compile(
            module.eval(), inputs, backends=[backend], runtime=runtime, dynamic_shapes=dynamic_shapes
        )
    finally:
        compiler_module.preprocess = original
    return Compiled(str(program.report()), results, names)


def tensor(graph: s.Graph, number: int) -> s.VkTensor:
    """Return a value of a graph that is a tensor."""
    value = graph.values[number].value
    assert isinstance(value, s.VkTensor)
    return value
