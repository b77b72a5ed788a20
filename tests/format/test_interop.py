"""Files that executorch wrote: read, written again by us, and run by executorch's own runtime with the same result."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from edgecore.format import read_pte, verify, write_pte

pytestmark = pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")


def make_net() -> Any:
    """A linear layer for XNNPACK, a cumulative sum that stays outside, a constant and mutable state."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = torch.nn.Linear(8, 4)
            self.register_buffer("scale", torch.randn(4))
            self.register_buffer("count", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1.0)
            return torch.cumsum(self.linear(x) * self.scale, 1) + self.count

    return Net().eval()


@pytest.fixture(scope="module", params=["portable", "xnnpack"])
def file(request: pytest.FixtureRequest) -> bytes:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.capture._config import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    partitioners = [XnnpackPartitioner()] if request.param == "xnnpack" else []
    exported = torch.export.export(make_net(), (torch.zeros(2, 8),))
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["count"])])
    return bytes(to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch(config).buffer)


def test_a_program_without_constants_is_read() -> None:
    """executorch writes it with one empty segment and without an extended header."""
    import torch
    from executorch.exir import to_edge

    exported = torch.export.export(torch.nn.Tanh(), (torch.zeros(2),))
    theirs = bytes(to_edge(exported).to_executorch().buffer)
    assert theirs[8:12] != b"eh00"
    pte = read_pte(theirs)
    assert verify(pte) == []
    assert read_pte(write_pte(pte)).program == pte.program


def run(buffer: bytes) -> list[Any]:
    import torch
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(buffer).load_method("forward")
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    return [method.execute([x])[0].clone() for _ in range(2)]


def test_a_file_that_was_read_and_written_again_runs_the_same(file: bytes) -> None:
    pte = read_pte(file)
    assert verify(pte) == []
    assert len(pte.mutable) == 2, "the state's initial value"
    rewritten = write_pte(pte)
    assert read_pte(rewritten) == pte
    for expected, actual in zip(run(file), run(rewritten), strict=True):
        assert expected.equal(actual)


def test_blobs_and_named_data_stay_the_same_when_a_file_is_written_again(file: bytes) -> None:
    pte = read_pte(file)
    again = read_pte(write_pte(pte))
    assert again.delegate_blobs == pte.delegate_blobs
    assert again.named_data == pte.named_data
