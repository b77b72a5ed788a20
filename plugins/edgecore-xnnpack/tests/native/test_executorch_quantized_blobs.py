"""Quantised and half-precision files that executorch 1.5.1 wrote: its results and ours; damaged parameters."""

from __future__ import annotations

import copy
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")
pytest.importorskip("torchao")

sys.path.insert(0, str(Path(__file__).parents[1]))
from corrupt import damage, in_child
from native_host import NativeError, Output, Session, build_folder

import edgecore
from edgecore.format import read_pte
from edgecore_xnnpack.blob.format import read_graph, write_graph
from edgecore_xnnpack.schema import graph as g

F = torch.nn.functional
nn = torch.nn


class Images(nn.Module):  # type: ignore[misc]
    """A module that executorch's quantizer annotates: `linear` per tensor, the rest per channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.point = nn.Conv2d(16, 16, 1)
        self.up = nn.ConvTranspose2d(32, 8, 3, 2, 1, output_padding=1)
        self.head = nn.Sequential(nn.Conv2d(8, 8, 3, groups=2, bias=False), nn.ReLU())
        self.linear = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = x + self.point(self.depthwise(x))
        x = self.up(torch.cat([x, F.hardtanh(x, 0.0, 0.5)], 1))
        x = self.head(F.max_pool2d(x, 2))[:, :, 1:5]
        return self.linear(F.adaptive_avg_pool2d(x * x, 1).flatten(1))


def quantized(x: Any, scale: float, zero_point: int) -> Any:
    """`x` rounded to 8 bits."""
    ops = torch.ops.quantized_decomposed
    parameters = (scale, zero_point, -128, 127, torch.int8)
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *parameters), *parameters)


class Functions(nn.Module):  # type: ignore[misc]
    """Functions that the quantiser leaves alone, between parameters written by hand."""

    def forward(self, x: Any) -> Any:
        x = quantized(x, 0.03, 5)
        x = quantized(F.leaky_relu(x, 0.1), 0.02, -20)
        x = quantized(F.hardswish(x), 0.02, -100)
        a = quantized(torch.tanh(x), 1 / 128, 0)
        b = quantized(torch.sigmoid(x), 1 / 256, -128)
        return quantized(a - b, 0.01, 3)


def prepared(module: Any, inputs: tuple[Any, ...], quantizer: Any) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    observed = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer)
    observed(*inputs)
    return convert_pt2e(observed)


def images() -> tuple[Any, tuple[Any, ...]]:
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnn

    config = xnn.get_symmetric_quantization_config
    quantizer = xnn.XNNPACKQuantizer().set_global(config(is_per_channel=True))
    quantizer.set_module_name("linear", config(is_per_channel=False))
    inputs = (torch.randn(1, 3, 16, 16),)
    return prepared(Images(), inputs, quantizer), inputs


def dynamic() -> tuple[Any, tuple[Any, ...]]:
    """A convolution and a layer of 8 bits, then one of 4 bits per channel."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnn

    config = xnn.get_symmetric_quantization_config
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(2), nn.Linear(16, 12), nn.GELU(), nn.Linear(12, 5))
    quantizer = xnn.XNNPACKQuantizer().set_global(config(is_per_channel=True, is_dynamic=True))
    quantizer.set_module_name("4", config(is_per_channel=True, is_dynamic=True, weight_qmin=-8, weight_qmax=7))
    inputs = (torch.randn(2, 3, 4, 4),)
    return prepared(module, inputs, quantizer), inputs


def groups() -> tuple[Any, tuple[Any, ...]]:
    """Linear layers by torchao's `quantize_`: 4 bits in groups of 32, and 8 bits per channel."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64), nn.Linear(64, 7, bias=False)).eval()
    for name, dtype, granularity in (("0", torch.int4, PerGroup(32)), ("2", torch.int8, PerAxis(0)),
                                     ("3", torch.int4, PerGroup(32))):  # fmt: skip
        config = Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity)
        quantize_(module, config, filter_fn=lambda _, full, name=name: full == name)
    return module, (torch.randn(5, 64),)


def half() -> tuple[Any, tuple[Any, ...]]:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.MaxPool2d(2), nn.Flatten())
    return layers.append(nn.Linear(32, 10)).half().eval(), (torch.randn(2, 3, 8, 8).half(),)


CASES: dict[str, tuple[Callable[[], tuple[Any, tuple[Any, ...]]], set[str]]] = {
    "images": (images, {"QINT8", "QINT32", "QCINT8", "QCINT32"}),
    "functions": (lambda: (Functions(), (torch.randn(3, 40),)), {"QINT8"}),
    "dynamic": (dynamic, {"QDINT8", "QCINT8", "QCINT4"}),
    "groups": (groups, {"QDINT8", "QBINT4", "QCINT8"}),
    "half": (half, {"FP16"}),
}


@dataclass
class File:
    """A file of one delegate, and what it computes on executorch."""

    data: bytes
    inputs: tuple[Any, ...]
    expected: Any
    module: Any

    @property
    def graph(self) -> g.Graph:
        return read_graph(read_pte(self.data).delegate_blobs[0])

    @property
    def named(self) -> dict[str, bytes]:
        return {key: bytes(blob.data) for key, blob in read_pte(self.data).named_data.items()}


def lower(module: Any, inputs: tuple[Any, ...]) -> File:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = torch.export.export(module, inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    data = bytes(lowered.buffer)
    assert len(read_pte(data).delegate_blobs) == 1
    program = Runtime.get().load_program(data)  # its methods do not keep it alive
    fresh = tuple(torch.randn_like(i) for i in inputs)
    return File(data, fresh, program.load_method("forward").execute(list(fresh))[0].clone(), module)


_files: dict[str, File] = {}


def get(name: str) -> File:
    if name not in _files:
        torch.manual_seed(0)
        _files[name] = lower(*CASES[name][0]())
    return _files[name]


def tensor(value: g.Value) -> g.TensorValue:
    held = value.value
    found = held.tensor_value if isinstance(held, g.QuantizedTensorValue) else held
    assert found is not None
    return found


def quantum(graph: g.Graph) -> float:
    """Return the max scale of the values that are converted to an output; 0 for files with float outputs."""
    outputs = {tensor(v).id_out for v in graph.values if tensor(v).flags == g.EXTERNAL_OUTPUT}
    sources = {n.node.input_id for n in graph.nodes if isinstance(n.node, g.Convert) and n.node.output_id in outputs}
    values = [v.value for v in graph.values if tensor(v).id_out in sources]
    scales = [v.quant_params.scale for v in values if isinstance(v, g.QuantizedTensorValue)]  # type: ignore[union-attr]
    return max(scales, default=0.0)  # type: ignore[type-var]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_quantized_blob_gives_the_same_as_on_executorch(name: str) -> None:
    file = get(name)
    assert {tensor(v).datatype.name for v in file.graph.values} - {"FP32"} == CASES[name][1]
    actual = edgecore.load(file.data).forward(*file.inputs)
    rounding = 2e-3 if file.expected.dtype == torch.float16 else 1e-5
    limit = quantum(file.graph) * 1.001 or rounding * float(file.expected.abs().max())
    assert float((actual - file.expected).abs().max()) <= limit
    assert file.expected.unique().numel() > 5, "the comparison must mean something"


def test_odd_four_bit_rows_mean_what_the_writer_meant() -> None:
    """executorch's own runtime reads such rows without their filling, so eager is the reference."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnn

    torch.manual_seed(0)
    config = xnn.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True, weight_qmin=-8, weight_qmax=7)
    inputs = (torch.randn(4, 15),)
    module = prepared(nn.Sequential(nn.Linear(15, 6)), inputs, xnn.XNNPACKQuantizer().set_global(config))
    file = lower(module, inputs)
    assert any(tensor(v).datatype == g.Datatype.QCINT4 and tensor(v).dims == [6, 15] for v in file.graph.values)
    expected = module(*file.inputs)
    actual = edgecore.load(file.data).forward(*file.inputs)
    assert float((actual - expected).detach().abs().max()) <= 0.01 * float(expected.detach().abs().max())


def opened(graph: g.Graph, named: dict[str, bytes]) -> Session:
    folder = build_folder()
    if folder is None:
        pytest.skip("EDGECORE_XNNPACK_BUILD names no build of native/")
    return Session(folder, write_graph(graph), named)


@pytest.mark.slow
def test_scales_inside_of_the_flatbuffer_are_read() -> None:
    """Older writers put them there."""
    file = get("images")
    graph, named = file.graph, file.named
    for value in graph.values:
        params = getattr(value.value, "quant_params", None)
        if isinstance(params, g.PerChannelQuant):
            data = named[graph.constant_data[params.scale_buffer_idx].named_key]
            params.scale = list(struct.unpack(f"<{params.num_scales}f", data))
            params.scale_buffer_idx = params.num_scales = 0
    with opened(graph, named) as session:
        (result,) = session.run([i.numpy() for i in file.inputs], [Output(tuple(file.expected.shape))])
    assert abs(result - file.expected.numpy()).max() <= quantum(graph) * 1.001


def first(graph: g.Graph, *types: str) -> Any:
    """The first value of one of the types, with its parameters."""
    return next(v.value for v in graph.values if tensor(v).datatype.name in types)


def change(*types: str, **fields: Any) -> Callable[[g.Graph, dict[str, bytes]], None]:
    """Writes fields of the quantisation parameters of the first value of a type."""

    def apply(graph: g.Graph, named: dict[str, bytes]) -> None:
        for field, content in fields.items():
            setattr(first(graph, *types).quant_params, field, content)

    return apply


def retype(old: str, new: str) -> Callable[[g.Graph, dict[str, bytes]], None]:
    def apply(graph: g.Graph, named: dict[str, bytes]) -> None:
        first(graph, old).tensor_value.datatype = g.Datatype[new]

    return apply


def external(graph: g.Graph, named: dict[str, bytes]) -> None:
    first(graph, "QDINT8").tensor_value.flags = g.EXTERNAL_OUTPUT
    first(graph, "QDINT8").tensor_value.external_id = 7


def per_tensor_filter(graph: g.Graph, named: dict[str, bytes]) -> None:
    held = first(graph, "QCINT8")
    held.tensor_value.datatype = g.Datatype.QINT8
    held.quant_params = g.PerTensorQuant(0.01, 0)


def scales(kind: str, edit: Callable[[bytes], bytes]) -> Callable[[g.Graph, dict[str, bytes]], None]:
    """Edits the stored scales of the first value of a type."""

    def apply(graph: g.Graph, named: dict[str, bytes]) -> None:
        key = graph.constant_data[first(graph, kind).quant_params.scale_buffer_idx].named_key
        named[key] = edit(named[key])

    return apply


def result(kind: type, scale: float) -> Callable[[g.Graph, dict[str, bytes]], None]:
    """Gives the output of the first node of a kind another scale."""

    def apply(graph: g.Graph, named: dict[str, bytes]) -> None:
        output = next(n.node.output_id for n in graph.nodes if isinstance(n.node, kind))  # type: ignore[attr-defined]
        value = next(v.value for v in graph.values if tensor(v).id_out == output)
        value.quant_params.scale = scale  # type: ignore[union-attr]

    return apply


NAN, INF = float("nan"), float("inf")
MATRIX = "only a matrix with channel dim 0 and groups of a multiple of 32"
DAMAGE: list[tuple[str, Callable[[g.Graph, dict[str, bytes]], None], str]] = [
    *(("images", change("QINT8", scale=s), r"scale \S+ or zero point") for s in (0.0, -1.0, NAN, INF, 1e-42)),
    *(("images", change("QINT8", zero_point=z), "or zero point .* is not possible") for z in (-129, 128, 2**31 - 1)),
    ("images", change("QINT32", zero_point=1), "or zero point 1 is not possible for qint32"),
    *(("images", result(g.Conv2d, s), "requantization scale .* is outside") for s in (1e-30, 1e30)),
    *(("images", result(g.FullyConnected, s), "requantization scale .* is outside") for s in (1e-30, 1e30)),
    *(("images", result(g.ConvTranspose2d, s), "requantization scale .* is outside") for s in (1e-30, 1e30)),
    *(("images", result(g.Add, s), "input scale / output scale is .* outside") for s in (1e-30, 1e30)),
    *(("images", result(g.Multiply, s), "product of the input scales / output scale is .* outside") for s in (1e-30, 1e30)),
    ("images", result(g.MaxPooling2d, 0.5), "must be the same"),
    ("images", result(g.Concatenate2, 0.5), "must be the same"),
    ("images", change("QCINT8", num_scales=15), r"15 scales where qcint8 of \[16, 3, 3, 3\] needs 16"),
    ("images", change("QCINT8", channel_dim=1), "16 scales where .* needs 3"),
    ("images", change("QCINT8", channel_dim=1, num_scales=3), "the filter's scales belong to dim 1 instead of 0"),
    *(("images", change("QCINT8", channel_dim=d), f"has no channel dim {d}") for d in (4, -1)),
    ("images", change("QCINT8", scale_buffer_idx=0), "0 scales where"),
    ("images", change("QCINT8", scale_buffer_idx=0, scale=[0.5] * 17), "17 scales where"),
    ("images", change("QCINT8", scale_buffer_idx=0, scale=[0.0] * 16), "scale 0 is 0"),
    ("images", change("QCINT8", scale_buffer_idx=10**6), "names constant 1000000 of"),
    ("images", scales("QCINT8", lambda b: b[:-4]), "60 bytes instead of 64"),
    *(("images", scales("QCINT8", lambda b, s=s: b[:4] + struct.pack("<f", s) + b[8:]), "scale 1 is .* must be finite")
      for s in (0.0, -1.0, NAN, INF, 1e-42)),
    ("images", scales("QCINT8", lambda b: struct.pack("<f", 1e30) + b[4:]), "requantization scale"),
    ("images", change("QCINT32", num_scales=17), "17 scales where"),
    ("images", retype("QCINT8", "QINT8"), "qint8 does not go with quantization parameters of kind 1"),
    ("images", retype("QINT8", "QDINT8"), "qdint8 does not go with"),
    ("images", retype("QINT8", "QUINT8"), "or zero point .* is not possible for quint8|must be the same|no kernel"),
    ("images", retype("QINT8", "FP32"), "fp32 has no quantization parameters"),
    ("images", per_tensor_filter, "no kernel for input qint8, filter qint8, bias qcint32"),
    *(("dynamic", change("QDINT8", num_nonbatch_dims=n), f"{n} dims of .* share parameters") for n in (0, -1, 9)),
    ("dynamic", change("QDINT8", num_nonbatch_dims=2), "cover 2 trailing dims instead of"),
    ("dynamic", external, "qdint8 exists only between nodes"),
    ("dynamic", retype("QDINT8", "QINT8"), "qint8 does not go with"),
    ("dynamic", retype("QCINT4", "QBINT4"), "qbint4 does not go with"),
    ("dynamic", change("QCINT4", channel_dim=1), "5 scales where .* needs 12"),
    ("dynamic", scales("QCINT4", lambda b: b"\0" * len(b)), "scale 0 is 0"),
    *(("groups", change("QBINT4", group_size=n), f"groups of {n} .*{MATRIX}") for n in (0, -32, 1, 16, 48, 2**30)),
    ("groups", change("QBINT4", group_size=64), "64 scales where .* needs 32"),
    ("groups", change("QBINT4", channel_dim=1), MATRIX),
    ("groups", change("QBINT4", num_scales=63), "63 scales where"),
    ("groups", change("QBINT4", scale_buffer_idx=0), "0 scales where"),
    ("groups", scales("QBINT4", lambda b: b[:-2]), "126 bytes instead of 128"),
    *(("groups", scales("QBINT4", lambda b, s=s: b[:2] + struct.pack("<H", s) + b[4:]), "scale 1 is .* must be finite")
      for s in (0, 0xBF80, 0x7FC0, 0x7F80)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damaging", "text"), DAMAGE)
def test_damaged_parameters_are_refused(name: str, damaging: Any, text: str) -> None:
    file = get(name)
    graph, named = file.graph, copy.deepcopy(file.named)
    damaging(graph, named)
    with pytest.raises(NativeError, match=text), opened(graph, named):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images", "dynamic", "groups"])
def test_random_damage_kills_no_process(name: str) -> None:
    folder = build_folder()
    if folder is None:
        pytest.skip("EDGECORE_XNNPACK_BUILD names no build of native/")
    file = get(name)
    blob = bytes(read_pte(file.data).delegate_blobs[0])
    arrays, outputs = [i.numpy() for i in file.inputs], [Output(tuple(file.expected.shape))]
    results = Counter(
        in_child(folder, *damage(random.Random(seed), blob, file.named), arrays, outputs) for seed in range(100)
    )
    assert set(results) == {"ran", "refused"}
