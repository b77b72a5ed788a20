"""Blobs that executorch 1.5.1 wrote, run by our delegate, against eager PyTorch."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

sys.path.insert(0, str(Path(__file__).parents[1]))
from corrupt import damage, in_child
from native_host import NativeError, Output, Session, build_folder

from edgecore.format import read_pte

F = torch.nn.functional
TOLERANCE = 1e-5  # of the largest output

pytestmark = pytest.mark.skipif(build_folder() is None, reason="EDGECORE_XNNPACK_BUILD names no build of native/")


@dataclass
class Case:
    """A module of one delegate, its blob and named data, and its example inputs."""

    module: Any
    inputs: tuple[Any, ...]
    blob: bytes
    named: dict[str, bytes]


def lower(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any = None) -> Case:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    pte = read_pte(program.buffer)
    assert len(pte.delegate_blobs) == 1, "the model must be one delegate"
    named = {key: bytes(blob.data) for key, blob in pte.named_data.items()}
    return Case(module, inputs, bytes(pte.delegate_blobs[0]), named)


class Function(torch.nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def outputs_of(expected: Any) -> list[Any]:
    return list(expected) if isinstance(expected, (tuple, list)) else [expected]


def check(case: Case, inputs: tuple[Any, ...], threads: int = 1, session: Session | None = None) -> None:
    folder = build_folder()
    assert folder is not None
    with torch.no_grad():
        expected = outputs_of(case.module(*inputs))
    shapes = [Output(tuple(e.shape), str(e.numpy().dtype)) for e in expected]
    arrays = [i.numpy() for i in inputs]
    if session is None:
        with Session(folder, case.blob, case.named, threads) as own:
            results = own.run(arrays, shapes)
    else:
        results = session.run(arrays, shapes)
    for result, e in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, e.numpy(), rtol=TOLERANCE, atol=TOLERANCE * float(e.abs().max()))


# No numbers in these functions: executorch passes them as further arguments of the delegate.
def unary(x: Any) -> Any:
    y = torch.sigmoid(x) + F.hardswish(x) * torch.tanh(x) - F.gelu(x)
    y = y + F.leaky_relu(x, 0.1) + torch.abs(x).clamp(0.25, 4.0).sqrt() + torch.rsqrt(torch.abs(x).clamp(0.5))
    y = y + torch.exp(-torch.abs(x)) + torch.log(torch.abs(x).clamp(0.125)) + torch.neg(x) + torch.square(x)
    return y + torch.floor(x) + torch.ceil(x)


def binary(x: Any, y: Any) -> Any:
    return torch.minimum(x + y, x - y) * torch.maximum(x, y) / torch.abs(y).clamp(0.5)


def broadcast(x: Any, y: Any) -> Any:
    return x * y + y


def pools(x: Any) -> Any:
    return F.max_pool2d(x, 3, 2, 1) + F.avg_pool2d(F.max_pool2d(x, 3, 1, 1), 2, 2, 0)


def movement(x: Any) -> Any:
    """Pads, slices, concatenates two to five tensors, permutes and reshapes."""
    x = F.pad(x, (1, 2, 3, 4), value=0.5)
    parts = [torch.narrow(x, 2, start, 8) for start in range(1, 6)]
    x = torch.cat(parts, 2) + torch.cat(parts[::-1], 2)
    for count in (2, 3, 4):
        x = torch.narrow(x, 2, 0, 8) + torch.narrow(torch.cat(parts[:count], 2), 2, 8 * count - 11, 8)
    return x.permute(0, 2, 3, 1).reshape(1, -1, x.shape[1])


def attention(q: Any, k: Any, v: Any) -> Any:
    return torch.bmm(torch.softmax(torch.bmm(q, k), -1), v)


def convolutions() -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 5, 1, 2, groups=8),
        nn.ReLU6(),
        nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=2),
        nn.PReLU(16),
        nn.ConvTranspose2d(16, 4, 3, 2, 1, output_padding=1),
        nn.Hardtanh(-0.5, 0.5),
        nn.UpsamplingBilinear2d(scale_factor=2),
        nn.Conv2d(4, 6, 1, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 10),
        nn.Softmax(-1),
    )


def image(channels: int = 3, size: int = 16) -> Any:
    return torch.randn(1, channels, size, size)


CASES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "unary": lambda: (Function(unary), (torch.randn(3, 17),)),
    "binary": lambda: (Function(binary), (torch.randn(2, 3, 5), torch.randn(2, 3, 5))),
    "broadcast": lambda: (Function(broadcast), (torch.randn(2, 3, 5), torch.randn(3, 1))),
    "pools": lambda: (Function(pools), (image(5, 16),)),
    "movement": lambda: (Function(movement), (image(2, 10),)),
    "attention": lambda: (Function(attention), (torch.randn(2, 5, 8), torch.randn(2, 8, 7), torch.randn(2, 7, 3))),
    "convolutions": lambda: (convolutions(), (image(),)),
}


@pytest.fixture(scope="module")
def lowered() -> Iterator[dict[str, Case]]:
    yield {}


def get(lowered: dict[str, Case], name: str) -> Case:
    if name not in lowered:
        torch.manual_seed(0)
        module, inputs = CASES[name]()
        lowered[name] = lower(module, inputs)
    return lowered[name]


class Clamps(torch.nn.Module):  # type: ignore[misc]
    """Clamps after nodes that limit their output, disjoint ones among them: nodes of their own in executorch's files."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Any) -> list[Any]:
        y = self.conv(x)
        return [
            y.clamp(0.25, 2.0), y.clamp(-1.0, 0.0), y.clamp(-2.0, -0.5), F.relu6(y).clamp(7.0, 8.0),
            x.clamp(0.0, 1.0).clamp(2.0, 3.0), x.clamp(0.0, 1.0).clamp(-3.0, -2.0), x.clamp(0.0, 1.0).clamp(1.0, 2.0),
            F.relu(x + y).clamp(-2.0, -1.0), x.clamp(-1.0, 1.0).clamp(0.0, 2.0), F.max_pool2d(x, 2).clamp(0.5, 0.75),
        ]  # fmt: skip


@pytest.mark.slow
def test_clamps_after_clamps_equal_eager() -> None:
    inputs = (torch.randn(1, 4, 9, 9),)
    check(lower(Clamps(), inputs), inputs)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_a_blob_of_executorch_equals_eager(lowered: dict[str, Case], name: str, threads: int) -> None:
    case = get(lowered, name)
    check(case, case.inputs, threads)


def test_inputs_of_another_dim_order_equal_eager(lowered: dict[str, Case]) -> None:
    case = get(lowered, "convolutions")
    folder = build_folder()
    assert folder is not None
    with Session(folder, case.blob, case.named) as session:
        assert session.argument_count == 2
        check(case, (image(),), session=session)
        with pytest.raises(NativeError, match=r"expected \[N, H, W, 3\]"):
            check(case, (image().to(memory_format=torch.channels_last),), session=session)
        check(case, case.inputs, session=session)


def test_sizes_of_inputs_may_grow_and_shrink() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4), torch.nn.Softmax(-1))
    batch = torch.export.Dim("batch", max=64)
    case = lower(module, (torch.randn(4, 6),), dynamic_shapes=({0: batch},))
    folder = build_folder()
    assert folder is not None
    with Session(folder, case.blob, case.named, 2) as session:
        for size in (4, 64, 1, 7, 64, 3):
            check(case, (torch.randn(size, 6),), session=session)


def test_wrong_arguments_are_refused_in_one_sentence(lowered: dict[str, Case]) -> None:
    case = get(lowered, "convolutions")
    folder = build_folder()
    assert folder is not None
    image_array = case.inputs[0].numpy()
    with Session(folder, case.blob, case.named) as session:
        with pytest.raises(NativeError, match=r"1 arguments instead of 2"):
            session.run([image_array], [])
        with pytest.raises(NativeError, match=r"argument 0 has scalar type 3 where the graph has fp32"):
            session.run([image_array.astype("int32")], [Output((1, 10))])
        with pytest.raises(NativeError, match=r"argument 0 has 3 dims instead of 4"):
            session.run([image_array[0]], [Output((1, 10))])
        with pytest.raises(NativeError, match=r"expected \[N, H, W, 3\]"):
            session.run([image_array[:, :2]], [Output((1, 10))])
        with pytest.raises(NativeError, match=r"empty"):
            session.run([image_array[:0]], [Output((1, 10))])
        check(case, case.inputs, session=session)


def test_missing_named_data_are_named(lowered: dict[str, Case]) -> None:
    case = get(lowered, "convolutions")
    folder = build_folder()
    assert folder is not None
    with pytest.raises(NativeError, match=r"the file holds no data .*load that file with the program") as caught:
        Session(folder, case.blob, {})
    assert caught.value.code == 0x20
    short = {key: data[:-4] for key, data in case.named.items()}
    with pytest.raises(NativeError, match=r"bytes instead of"):
        Session(folder, case.blob, short)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda b: b"", "its 0 bytes end too early"),
        (lambda b: b[:20], "its 20 bytes end too early"),
        (lambda b: b[:100], "is not in its 100 bytes"),
        (lambda b: b[:36] + b"QQQQ" + b[40:], "identifier"),
        (lambda b: b[:32] + b"\xff\xff\xff\x7f" + b[36:], "flatbuffer is damaged"),
    ],
)
def test_a_damaged_blob_is_refused_in_one_sentence(
    lowered: dict[str, Case], change: Callable[[bytes], bytes], text: str
) -> None:
    case = get(lowered, "convolutions")
    folder = build_folder()
    assert folder is not None
    with pytest.raises(NativeError, match=text):
        Session(folder, change(case.blob), case.named)


@pytest.mark.slow
def test_random_damage_kills_no_process(lowered: dict[str, Case]) -> None:
    case = get(lowered, "convolutions")
    folder = build_folder()
    assert folder is not None
    arrays = [i.numpy() for i in case.inputs]
    results = Counter(
        in_child(folder, *damage(random.Random(seed), case.blob, case.named), arrays, [Output((1, 10))])
        for seed in range(300)
    )
    assert set(results) == {"ran", "refused"}


def test_the_delegate_exports_one_symbol() -> None:
    folder = build_folder()
    assert folder is not None
    library = Path(folder) / "libedgecore_xnnpack.so"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["edgecore_backend_v0"]
