"""No corrupted file kills the process that loads it. The full count is a command: see `corrupt.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt


class Net(nn.Module):
    """Most of what a file holds: delegates, kernels between them, constants, several outputs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2))
        self.table = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x, index):
        y = self.conv(x).mean((2, 3))
        z = y + self.table(index)
        return self.head(z).softmax(-1), z * 2


class Branches(nn.Module):
    """A branch, an update of a buffer, an index, a sum, a pad: what other nets leave out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        y = nn.functional.pad(y, (1, 1)).index_select(0, torch.tensor([0, 2, 4])).scatter(0, torch.tensor([1]), 3.0)
        return y.cumsum(0) + self.total[:3]


class Total(nn.Module):
    """Another method on the same buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.mul_(2)
        return self.total + x


def quantised(path):
    """executorch's file of an int8 network, in one delegate of XNNPACK."""
    pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 5)).eval()
    inputs = (torch.randn(1, 3, 8, 8),)
    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
    prepared(*inputs)
    exported = torch.export.export(convert_pt2e(prepared), inputs)
    path.write_bytes(to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch().buffer)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robustness")
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 8, 8), torch.tensor([3]))
    paths = {}
    for name, backends in (("portable", []), ("xnnpack", ["xnnpack"])):
        paths[name] = folder / f"{name}.pte"
        edgecore.compile(Net().eval(), inputs, backends=backends).save(paths[name])
    edgecore.compile(Net().eval(), inputs, external_data={"*": "weights"}).save(folder / "outside.pte")
    paths["outside"], paths["weights"] = folder / "outside.pte", folder / "weights.ptd"
    example = (torch.ones(4),)
    methods = {"branch": Branches().eval(), "total": Total().eval()}
    paths["state"] = folder / "state.pte"
    edgecore.compile(methods, {"branch": example, "total": example}, share_state=True).save(paths["state"])
    paths["bundle"] = folder / "bundle.bpte"
    tensor = fmt.BundledTensor(fmt.ScalarType.FLOAT, [4], bytes(16), [0])
    case = fmt.BundledMethodTestCase([fmt.Value(tensor)], [])
    suite = fmt.BundledMethodTestSuite("branch", [case])
    paths["bundle"].write_bytes(fmt.write_bpte(fmt.BpteFile(0, [suite], paths["state"].read_bytes())))
    return paths


def check(path, *options):
    script = Path(__file__).with_name("corrupt.py")
    command = [sys.executable, str(script), str(path), "--count", "170", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout


@pytest.mark.parametrize("name", ["portable", "xnnpack", "outside", "weights", "state", "bundle"])
def test_no_corruption_kills_the_process(files, name):
    other = {"outside": ["--data", str(files["weights"])], "weights": ["--program", str(files["outside"])]}
    check(files[name], *other.get(name, []))


@pytest.mark.slow
def test_no_corruption_of_a_quantized_network_kills_the_process(tmp_path):
    quantised(tmp_path / "int8.pte")
    check(tmp_path / "int8.pte")
