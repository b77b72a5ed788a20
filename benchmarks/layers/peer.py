"""Compile one layer with executorch, and time it in executorch's runtime.

The input and output of the layer are channels last and, for int8, already quantized, so that the delegate's graph
contains only this layer; `lower` checks this. executorch's quantizer does not fuse a ReLU6 with the convolution before
it. So an int8 layer has a ReLU instead, for which the kernel clamps its output in the same way.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from executorch.backends.xnnpack import xnnpack_preprocess
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.extension.pybindings import portable_lib
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

ACTIVATIONS = {"none": torch.nn.Identity, "relu": torch.nn.ReLU, "relu6": torch.nn.ReLU6}


def example_input(kind: str, size: int, channels: int, dtype: str) -> torch.Tensor:
    """Make a random fp32 or int8 input: (1, channels, size, size) channels last; (1, channels) if linear."""
    shape = (1, channels) if kind == "linear" else (1, channels, size, size)
    x = torch.randn(shape) if dtype == "f32" else torch.randint(-127, 128, shape, dtype=torch.int8)
    return x if kind == "linear" else x.to(memory_format=torch.channels_last)


def quantized(module: torch.nn.Module, x: torch.Tensor, x_int8: torch.Tensor) -> torch.export.ExportedProgram:
    """Quantize to static int8 with per-channel weights, and remove the quantization of the input and output."""
    config = get_symmetric_quantization_config(is_per_channel=True)
    prepared = prepare_pt2e(torch.export.export(module, (x,)).module(), XNNPACKQuantizer().set_global(config))
    prepared(x)
    converted = convert_pt2e(prepared)
    graph = converted.graph
    for node in list(graph.nodes):
        if node.name.startswith("_guards_fn"):  # this guard checks that the input is fp32
            graph.erase_node(node)
    (source,) = [node for node in graph.nodes if node.op == "placeholder"]
    (quantize,) = source.users
    quantize.replace_all_uses_with(source)
    (dequantize,) = graph.output_node().args[0]
    dequantize.replace_all_uses_with(dequantize.args[0])
    graph.eliminate_dead_code()
    converted.recompile()
    return torch.export.export(converted, (x_int8,))


def lower(
    dtype: str, kind: str, size: int, channels: int, out: int, kernel: int, stride: int, activation: str
) -> bytes:
    """Compile the layer to a .pte whose delegate contains exactly one node. Raise ValueError if it contains more."""
    if kind == "linear":
        layer: torch.nn.Module = torch.nn.Linear(channels, out)
    else:
        groups = channels if kind == "dwconv" else 1
        layer = torch.nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups)
    if dtype == "int8" and activation == "relu6":
        activation = "relu"
    module = torch.nn.Sequential(layer, ACTIVATIONS[activation]()).eval()
    x = example_input(kind, size, channels, "f32")
    if dtype == "f32":
        program = torch.export.export(module, (x,))
    else:
        program = quantized(module, x, example_input(kind, size, channels, dtype))

    graphs: list[Any] = []
    serialize = xnnpack_preprocess.serialize_xnnpack_binary

    def watched(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graphs.append(graph)
        return serialize(graph, *args, **kwargs)

    xnnpack_preprocess.serialize_xnnpack_binary = watched
    try:
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    finally:
        xnnpack_preprocess.serialize_xnnpack_binary = serialize
    nodes = [type(node.xnode_union).__name__ for graph in graphs for node in graph.xnodes]
    calls = [str(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"]
    if len(nodes) != 1 or len(calls) != 2:  # the call of the delegate, and the getitem of its result
        raise ValueError(f"{dtype} {kind} {size} {channels} {out}: more than the layer: {nodes} in {calls}")
    planning = MemoryPlanningPass(alloc_graph_input=False)
    return bytes(edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).buffer)


class Runner:
    """Loaded programs of executorch, whose thread pool has `threads` threads."""

    def __init__(self, threads: int) -> None:
        portable_lib._unsafe_reset_threadpool(threads)
        self._loaded: list[tuple[Any, tuple[torch.Tensor]]] = []
        self._programs: list[bytes] = []  # kept alive, because the loaded modules refer to them

    def add(self, program: bytes, x: torch.Tensor) -> int:
        self._programs.append(program)
        self._loaded.append((portable_lib._load_for_executorch_from_buffer(program), (x,)))
        return len(self._loaded) - 1

    def run(self, layer: int, count: int) -> list[float]:
        """Run a layer `count` times. Return the microseconds of each run, which include the Python binding."""
        module, inputs = self._loaded[layer]
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            module.run_method("forward", inputs, False)
            times.append((time.perf_counter_ns() - start) / 1000)
        return times
