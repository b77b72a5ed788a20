"""Mutable buffers: kept between calls, restored by reset, shared by methods on request."""

import numpy as np
import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import EdgecoreError

executorch_runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")


class Counter(nn.Module):
    """Adds its input to a buffer that starts at 10."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((size,), 10.0))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 1


class Reader(nn.Module):
    """Doubles the same buffer in place."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((size,), 10.0))

    def forward(self, x):
        self.total.mul_(2)
        return self.total + x * 0


ONE = np.ones(3, np.float32)


def two_methods(**options):
    example = (torch.ones(3),)
    programs = {"count": Counter().eval(), "double": Reader().eval()}
    return edgecore.compile(programs, {"count": example, "double": example}, **options).buffer


def test_state_is_kept_between_calls_and_reset_on_request():
    model = edgecore.load(edgecore.compile(Counter().eval(), (torch.ones(3),)).buffer)
    assert [model.forward(ONE)[0] for _ in range(3)] == [11, 12, 13]
    model.reset()
    assert model.forward(ONE)[0] == 11


def test_methods_have_their_own_state_unless_asked():
    model = edgecore.load(two_methods())
    assert model["count"](ONE)[0] == 11
    assert model["double"](ONE)[0] == 20
    assert model["count"](ONE)[0] == 12


@pytest.mark.parametrize("at", ["compile", "load"])
def test_methods_share_state_on_request_of_compile_or_load(at):
    if at == "compile":
        model = edgecore.load(two_methods(share_state=True))
    else:
        model = edgecore.load(two_methods(), share_state=True)
    assert model["count"](ONE)[0] == 11
    assert model["double"](ONE)[0] == 22
    assert model["count"](ONE)[0] == 23
    model.reset()
    assert model["double"](ONE)[0] == 20


def test_a_caller_may_refuse_sharing():
    model = edgecore.load(two_methods(share_state=True), share_state=False)
    assert model["count"](ONE)[0] == 11
    assert model["double"](ONE)[0] == 20


def test_shared_state_of_different_shapes_is_refused():
    example, large = (torch.ones(3),), (torch.ones(4),)
    programs = {"count": Counter().eval(), "double": Reader(4).eval()}
    data = edgecore.compile(programs, {"count": example, "double": large}).buffer
    with pytest.raises(EdgecoreError, match=r"Methods 'count' and 'double' share the state 'total'.*\[3\].*\[4\]"):
        edgecore.load(data, share_state=True).export_state()


def test_state_that_a_file_of_executorch_shares_is_shared(tmp_path):
    """A file of executorch with share_mutable_buffers, on its runtime's terms: one buffer for both methods."""
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    example = (torch.ones(3),)
    programs = {name: torch.export.export(m, example) for name, m in {"count": Counter(), "double": Reader()}.items()}
    config = ExecutorchBackendConfig(
        passes=[InitializedMutableBufferPass(["total"])],
        memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True),
    )
    model = edgecore.load(to_edge(programs).to_executorch(config).buffer, share_state=True)
    assert model["count"](ONE)[0] == 11
    assert model["double"](ONE)[0] == 22


def test_limits_of_loading_are_kept_and_unknown_ones_refused():
    data = two_methods()
    with pytest.raises(EdgecoreError, match="limit"):
        edgecore.load(data, limits={"methods": 1})
    with pytest.raises(KeyError, match="no limit 'speed'; there are flatbuffer_bytes"):
        edgecore.load(data, limits={"speed": 1})
    with pytest.raises(EdgecoreError, match="has not ended after 1 instructions .* the limit instructions"):
        edgecore.load(data, limits={"instructions": 1})["count"](ONE)


def test_state_is_exported_and_imported():
    data = two_methods(share_state=True)
    model = edgecore.load(data)
    model["count"](ONE)
    state = model.export_state()
    assert model["double"](ONE)[0] == 22
    model.import_state(state)
    assert model["double"](ONE)[0] == 22
    other = edgecore.load(data)
    other.import_state(memoryview(state))
    assert other["count"](ONE)[0] == 12


def test_damaged_or_foreign_state_changes_nothing():
    model = edgecore.load(edgecore.compile(Counter().eval(), (torch.ones(3),)).buffer)
    model.forward(ONE)
    state = model.export_state()
    foreign = edgecore.load(edgecore.compile(Counter(4).eval(), (torch.ones(4),)).buffer).export_state()
    with pytest.raises(
        EdgecoreError, match=r"of another program: it has the buffer 'total' float32 \[4\].*'total' .*\[3\]"
    ):
        model.import_state(foreign)
    with pytest.raises(EdgecoreError, match="is damaged or incomplete"):
        model.import_state(state[:-8])
    with pytest.raises(EdgecoreError, match="are not a state that export_state returned"):
        model.import_state(b"something else")
    with pytest.raises(TypeError):
        model.import_state("text")
    assert model.forward(ONE)[0] == 12


def test_sessions_have_buffers_of_their_own():
    model = edgecore.load(two_methods(share_state=True))
    model["count"](ONE)
    session = model.new_session()
    assert session.methods == model.methods
    assert session["count"](ONE)[0] == 11
    assert model["double"](ONE)[0] == 22
    session.import_state(model.export_state())
    del model
    assert session.new_session()["double"](ONE)[0] == 20
    assert session["count"](ONE)[0] == 23
