"""Several methods in one file: weights are stored once, state is private, or shared on request."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

import edgecore
from edgecore import ExecutorchBackendConfig, to_edge_transform_and_lower
from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.memory import MemoryPlanningPass

needs_peer = pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")


class Core(nn.Module):
    """A layer, a cache of four rows and a counter that starts at 3."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.register_buffer("cache", torch.arange(16.0).reshape(4, 4))
        self.register_buffer("count", torch.full((1,), 3.0))


class Fill(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.core = core

    def forward(self, x):
        y = self.core.layer(x)
        self.core.cache.copy_(y)
        self.core.count.add_(1.0)
        return y


class Step(Fill):
    def forward(self, x):
        self.core.cache.mul_(2.0)
        return self.core.layer(x) + self.core.cache


class Read(Fill):
    """Reads what others write; without its own writing, `cache + 0` would be a constant to fold."""

    def forward(self, x):
        return x + (self.core.cache + 1.0) * 2.0, self.core.count * 1.0


X = torch.linspace(-1, 1, 16).reshape(4, 4)
METHODS = {"fill": Fill, "step": Step, "read": Read}


def compiled(core=None, kinds=METHODS, **options):
    core = core or Core()
    return edgecore.compile({n: k(core).eval() for n, k in kinds.items()}, dict.fromkeys(kinds, (X,)), **options)


def planned(pte):
    """{method: {state: (memory id, offset)}} and the arena sizes."""
    places = {}
    for plan in pte.program.execution_plan:
        tensors = [value.val for value in plan.values if isinstance(value.val, fmt.Tensor)]
        places[plan.name] = {
            t.extra_tensor_info.fully_qualified_name: (t.allocation_info.memory_id, t.allocation_info.offset)
            for t in tensors
            if t.extra_tensor_info and t.allocation_info
        }
    return places, [plan.non_const_buffer_sizes for plan in pte.program.execution_plan]


def test_weights_of_all_methods_are_stored_once():
    pte = compiled().pte
    sizes = sorted(memoryview(constant).nbytes for constant in pte.constants)
    assert sizes.count(64) == 1, "the weight"
    assert sizes.count(16) == 1, "the bias"
    assert [memoryview(state).nbytes for state in pte.mutable] == [0, 64, 4], "initial content once too"


def test_private_state_starts_with_its_initial_content():
    model = edgecore.load(compiled().buffer)
    cache = torch.arange(16.0).reshape(4, 4)
    first, second = (model["step"](X) for _ in range(2))
    torch.testing.assert_close(second - first, cache * 2, atol=1e-4, rtol=1e-4)
    seen, count = model["read"](X)
    torch.testing.assert_close(seen, X + (cache + 1) * 2)
    assert count.item() == 3.0
    assert fmt.get_meta(compiled().pte).shared_state == []


@pytest.mark.parametrize("memory", [None, "static"])
def test_shared_state_has_the_same_offset_in_all_methods(memory):
    pte = compiled(share_state=True, memory=memory).pte
    places, arenas = planned(pte)
    assert fmt.verify(pte) == []
    assert fmt.get_meta(pte).shared_state == ["core.cache", "core.count"]
    assert places["fill"] == places["read"] == {"core.cache": (2, 0), "core.count": (2, 64)}
    assert places["step"] == {"core.cache": (2, 0)}
    assert all(len(sizes) == 3 and sizes[2] == 80 for sizes in arenas)


@needs_peer
def test_executorch_lays_shared_state_out_in_the_same_way():
    from executorch.exir import to_edge
    from executorch.exir.capture._config import ExecutorchBackendConfig as TheirConfig
    from executorch.exir.passes import MemoryPlanningPass as TheirPlanning
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    core = Core().requires_grad_(False)
    kinds = {"fill": Fill, "step": Step}
    exported = {name: torch.export.export(kind(core).eval(), (X,)) for name, kind in kinds.items()}
    config = TheirConfig(
        memory_planning_pass=TheirPlanning(share_mutable_buffers=True),
        passes=[InitializedMutableBufferPass(["cache", "count"])],
        emit_mutable_buffer_names=True,
    )
    theirs, their_arenas = planned(fmt.read_pte(to_edge(exported).to_executorch(config).buffer))
    ours, our_arenas = planned(compiled(core, kinds, share_state=True).pte)
    assert {place[0] for places in theirs.values() for place in places.values()} == {2}
    assert theirs["fill"]["core.cache"] == theirs["step"]["core.cache"]
    # The peer keeps a place for the counter in `step` too, which does not use it.
    assert all(set(ours[method]) <= set(theirs[method]) for method in kinds)
    assert [sizes[2] for sizes in our_arenas] == [sizes[2] for sizes in their_arenas]


@needs_peer
def test_executorch_runs_each_method_of_a_file_with_shared_state(tmp_path):
    from executorch.runtime import Runtime

    path = tmp_path / "methods.pte"
    core = Core()
    compiled(core, share_state=True).save(path)
    program = Runtime.get().load_program(path)
    seen, count = program.load_method("read").execute([X])
    torch.testing.assert_close(seen, X + (core.cache + 1) * 2)
    assert count.item() == 3.0


def test_the_option_share_mutable_buffers_of_executorch_shares_state():
    core = Core()
    exported = {name: torch.export.export(kind(core).eval(), (X,)) for name, kind in METHODS.items()}
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True))
    pte = to_edge_transform_and_lower(exported).to_executorch(config).pte
    assert fmt.get_meta(pte).shared_state == ["core.cache", "core.count"]


def change_shape(core):
    core.cache = torch.zeros(1, 4)


def change_dtype(core):
    core.cache = torch.zeros(4, 4, dtype=torch.float64)


def change_content(core):
    core.cache = torch.zeros(4, 4)


CONFLICTS = {
    change_shape: r"float32 \[4, 4\] in method one and float32 \[1, 4\] in two",
    change_dtype: r"float32 \[4, 4\] in method one and float64 \[4, 4\] in two",
    change_content: "its initial content differs between method one and two",
}


@pytest.mark.parametrize(("change", "kind"), [(change_shape, Read), (change_dtype, Step), (change_content, Step)])
def test_state_that_differs_cannot_be_shared(change, kind):
    other = Core()
    change(other)
    models = {"one": Step(Core()).eval(), "two": kind(other).eval()}
    with pytest.raises(CompileError, match=f"cannot share the mutable buffer core.cache: .*{CONFLICTS[change]}"):
        edgecore.compile(models, dict.fromkeys(models, (X,)), share_state=True)
    private = edgecore.load(edgecore.compile(models, dict.fromkeys(models, (X,))).buffer)
    got = private["two"](X)
    got = got[0] if kind is Read else got
    torch.testing.assert_close(got.float(), eager(other, kind), atol=1e-5, rtol=1e-5)


def eager(core, kind):
    result = kind(core)(X)
    return (result[0] if kind is Read else result).float()


def test_an_arena_of_the_users_cannot_be_the_shared_one():
    class Apart(MemoryPlanningPass):
        def arena_of(self, spec):
            return 2

    with pytest.raises(CompileError, match="arena 2 is reserved for the mutable buffers that methods share"):
        compiled(share_state=True, memory=Apart())
