"""Views, slices, concatenations and in-place results without memory of their own: same numbers, fewer instructions."""

import pytest
import torch
from fake_backends import delegate
from small_models import CatAlongAnInnerDim, Slices
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.ir.delegate import delegates
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import CapabilityPartitioner
from edgecore.passes.decompose import decompose
from edgecore.plugin import PreprocessResult


class ViewOfAnInputIsTheOutput(nn.Module):
    def forward(self, x):
        return x.view(4, 16), torch.sin(x).unsqueeze(0)


class ViewChain(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1).view(16, 4).unsqueeze(0).view(2, 32).permute(1, 0).contiguous().view(64)
        return torch.cumsum(y.view(8, 8).view(1, 64).squeeze(0), 0)


class ViewOutlivesItsSource(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        view = y.view(4, 16)
        z = torch.sin(y) + y  # must not be computed over y: the view is read later
        return torch.softmax(z, -1).view(4, 16) @ view.t()


class CatOfOneTensorTwice(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        return torch.cumsum(torch.cat([y, y]), 0), torch.cumsum(torch.cat([y, y.view(8, 8)], 0), 1)


class Cat(nn.Module):
    def forward(self, x):
        parts = [torch.softmax(x, -1), torch.cumsum(x, 0), torch.sin(torch.softmax(x, 0))]
        whole = torch.cat(parts)
        return torch.cumsum(torch.cat([whole, torch.cumsum(whole, 0)]), 0)


class PartIsReadAfterTheCat(nn.Module):
    def forward(self, x):
        parts = [torch.softmax(x, -1), torch.cumsum(x, 0)]
        return torch.cumsum(torch.cat(parts), 0) + torch.sin(parts[0]).sum() + parts[1].sum()


class UnalignedSlice(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1).view(64)
        return torch.cumsum(y[1:33], 0) + torch.cumsum(y[3:35], 0)


class SliceChangedThroughState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.arange(64.0).view(8, 8))

    def forward(self, x):
        before = self.cache[2:4] * 2
        self.cache[2:4] = x[:2]
        whole = torch.cat([before, self.cache[1:3].view(2, 8)])
        self.cache.add_(1)
        return torch.cumsum(whole, 0) + self.cache.sum()


class Cache(nn.Module):
    """As the keys of attention: some rows are set, all are read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(16, 8))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("last", torch.zeros(8, 8))

    def forward(self, x):
        at = (torch.arange(8) + self.count) % 16
        self.rows.index_put_((at,), torch.sin(x))
        self.count.add_(3)
        difference = x - self.last
        self.last.copy_(torch.cos(x))
        return torch.cumsum(self.rows, 0), difference


class BuffersChangePlaces(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(8, 8))
        self.register_buffer("b", torch.zeros(8, 8))

    def forward(self, x):
        a, b = self.a + x, self.b * 2
        old = self.a * 1.5
        self.a.copy_(b + 1)
        self.b.copy_(a)
        return torch.cumsum(self.a, 0) + torch.cumsum(old, 1) + torch.cumsum(self.b, 0)


class InPlace(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        z = torch.relu(y) * y
        z = torch.where(z > 0.1, z, y[0])
        return torch.cumsum(torch.sigmoid(z) + z[0], 0) + torch.cumsum((z + z).to(torch.int32), 0)


class Empty(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        return torch.cumsum(torch.cat([y[:0], torch.sin(y), y[8:]]), 0), y[3:3].view(0, 8, 1)


class ChannelsLast(nn.Module):
    def forward(self, x):
        y = torch.softmax(x.view(1, 4, 4, 4), 1).contiguous(memory_format=torch.channels_last)
        whole = torch.cat([torch.sin(y), torch.cos(y)], 1)
        return torch.cumsum(whole[:, 2:6].permute(0, 2, 3, 1).reshape(16, 4), 0), torch.relu(whole).sum()


class BranchReadsAView(nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        view = y.view(64)
        z = torch.cond(x.sum() > 0, lambda a: torch.cumsum(a, 0), lambda a: a.sin().cos(), (view,))
        return torch.sin(y).view(64) + z


MODELS = [ViewOfAnInputIsTheOutput, ViewChain, ViewOutlivesItsSource, CatOfOneTensorTwice, Cat, PartIsReadAfterTheCat, CatAlongAnInnerDim, Slices,
          UnalignedSlice, SliceChangedThroughState, Cache, BuffersChangePlaces, InPlace, Empty, ChannelsLast, BranchReadsAView]  # fmt: skip


def tensors(outputs):
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [torch.as_tensor(output) for output in outputs]


def kernels(program):
    plan = program.pte.program.execution_plan[0]
    calls = [call.instr_args for call in plan.chains[0].instructions]
    return [plan.operators[call.op_index].name for call in calls if isinstance(call, fmt.KernelCall)]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_models_that_share_memory_equal_eager_on_both_runtimes(model, static, tmp_path):
    runtime = pytest.importorskip("executorch.runtime")
    module, x = model().eval(), torch.randn(8, 8)
    planning = MemoryPlanningPass(alloc_graph_input=static, alloc_graph_output=static)
    compiled = edgecore.compile(module, (x,), memory=planning)
    path = compiled.save(tmp_path / "model.pte")[0]
    ours = edgecore.load(path).forward
    peer = runtime.Runtime.get().load_program(path).load_method("forward")
    for _ in range(2):
        x = torch.randn(8, 8)
        expected = tensors(module(x))
        for got in (tensors(ours(x)), tensors(peer.execute([x]))):
            for one, other in zip(got, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


UNARY = ("abs acos asin atan ceil cos cosh erf exp expm1 floor log log10 log1p log2 neg reciprocal relu round rsqrt sigmoid sign sin"
         " sinh sqrt square tan tanh trunc").split()  # fmt: skip
BINARY = "add sub mul div maximum minimum pow rsub".split()


class EveryInPlaceOperator(nn.Module):
    """Each operator over an operand that dies; sums along a dim keep the results inside the plan."""

    def forward(self, x):
        results = []

        def fresh():  # another value each time: equal ones would be computed once, and live on
            return torch.softmax(x * (len(results) + 1), 0)

        row = x[0] * x[0] + 1
        for name in UNARY:
            results.append(getattr(torch, name)(fresh()))
        for name in BINARY:
            operator = getattr(torch, name)
            results.append(operator(fresh(), row))
            results.append(operator(row, fresh()))
        functional = nn.functional
        for function in (functional.elu, functional.gelu, functional.hardswish, functional.hardsigmoid, functional.hardtanh,
                         functional.leaky_relu, functional.silu, lambda t: t.clamp(0.01, 1), lambda t: t * 3, lambda t: t**3,
                         lambda t: torch.where(t > 0.1, t, row), lambda t: torch.where(t > 0.1, row, t),
                         lambda t: torch.div(t, 0.3, rounding_mode="floor")):  # fmt: skip
            results.append(function(fresh()))
        results.append(torch.bitwise_not(torch.cumsum(fresh() > 0.1, 0)).to(torch.float32))
        results.append(torch.logical_not(fresh() > 0.1).to(torch.float32))
        return tuple(torch.sum(result, 0) for result in results)


def test_every_operator_that_is_computed_in_place_gives_the_same_as_in_other_memory(tmp_path):
    runtime = pytest.importorskip("executorch.runtime")
    x = (torch.randn(13, 57),)
    exported = torch.export.export(EveryInPlaceOperator().eval(), x)
    found = []
    for reuse in (True, False):
        path = tmp_path / f"{reuse}.pte"
        compiled = edgecore.compile(exported, memory=MemoryPlanningPass(reuse=reuse))
        compiled.save(path)
        if reuse:
            assert sum(arena.shared for arena in compiled.report().memory) >= len(UNARY) + 2 * len(BINARY) + 10
        peer = runtime.Runtime.get().load_program(path).load_method("forward").execute(list(x))
        found.append(tensors(edgecore.load(path).forward(*x)) + tensors(peer))
    assert len(found[0]) == 2 * len(exported.graph.output_node().args[0])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7, equal_nan=True)  # Eigen's sine rounds by address


def test_views_concatenations_and_slices_need_no_instruction():
    x = (torch.randn(8, 8),)
    assert [name for name in kernels(edgecore.compile(Cat().eval(), x)) if "cat" in name] == []
    assert [name for name in kernels(edgecore.compile(Slices().eval(), x)) if "split" in name] == []
    assert kernels(edgecore.compile(ViewChain().eval(), x)).count("aten::view_copy") == 0
    assert kernels(edgecore.compile(Cache().eval(), x)).count("aten::copy_") == 0
    assert "aten::cat" in kernels(edgecore.compile(CatAlongAnInnerDim().eval(), x))
    assert "aten::cat" in kernels(edgecore.compile(CatOfOneTensorTwice().eval(), x))
    assert "aten::cat" in kernels(edgecore.compile(Cat().eval(), x, memory=MemoryPlanningPass(reuse=False)))


def test_offsets_of_slices_stay_aligned():
    plan = edgecore.compile(UnalignedSlice().eval(), (torch.randn(8, 8),)).pte.program.execution_plan[0]
    places = [value.val.allocation_info for value in plan.values if isinstance(value.val, fmt.Tensor)]
    assert all(place.offset % 16 == 0 for place in places if place is not None)


def test_a_chain_of_shared_tensors_may_be_longer_than_the_stack_of_python():
    model = nn.Sequential(*(nn.Sigmoid() if index % 2 else nn.ReLU() for index in range(1100))).eval()
    x = torch.randn(2, 3)
    torch.testing.assert_close(
        torch.as_tensor(edgecore.load(edgecore.compile(model, (x,)).buffer).forward(x)), model(x)
    )


def test_views_of_dynamic_shape_equal_eager():
    class Dynamic(nn.Module):
        def forward(self, x):
            y = torch.softmax(x, -1)
            return torch.cumsum(torch.relu(y.view(-1)) + torch.sin(y).view(-1), 0)

    n = torch.export.Dim("n", max=16)
    model = edgecore.compile(Dynamic().eval(), (torch.randn(8, 4),), dynamic_shapes=({0: n},))
    forward = edgecore.load(model.buffer).forward
    for size in (3, 16, 2):
        x = torch.randn(size, 4)
        torch.testing.assert_close(torch.as_tensor(forward(x)), Dynamic()(x))


def test_a_planner_of_the_user_that_overlaps_live_tensors_is_refused():
    def everything_at_zero(specs, alignment):
        for spec in specs:
            spec.mem_offset = 0
        return max(spec.nbytes for spec in specs)

    with pytest.raises(CompileError, match="two live tensors the same memory"):
        edgecore.compile(Slices().eval(), (torch.randn(8, 8),), memory=MemoryPlanningPass(everything_at_zero))


def test_a_planner_of_the_user_that_ignores_the_alignment_is_refused():
    def packed(specs, alignment):
        end = 4
        for spec in specs:
            spec.mem_offset, end = end, end + spec.nbytes
        return end

    with pytest.raises(CompileError, match="offset 4 of a tensor of 256 bytes is no multiple of 16"):
        edgecore.compile(Slices().eval(), (torch.randn(8, 8),), memory=MemoryPlanningPass(packed))


def test_a_delegate_never_reads_a_concatenation_and_its_operand_from_the_same_memory():
    class Parts(nn.Module):
        def forward(self, x):
            a = torch.sin(x)
            both = torch.cat([a, torch.cos(x)])
            return a + a, both + both

    program = decompose(torch.export.export(Parts().eval(), (torch.randn(4, 16),)).run_decompositions({}))
    only_add = lambda _: lambda node: None if node.target is torch.ops.aten.add.Tensor else "not supported"
    preprocess = lambda *_: (PreprocessResult(b"blob"), ("acme", "1"))
    delegate(program, CapabilityPartitioner("acme", only_add), preprocess)
    MemoryPlanningPass().plan(program)
    ((call, _),) = delegates(program)
    specs = [node.meta["spec"] for node in call.all_input_nodes if "spec" in node.meta]
    assert len(specs) == 2
    ranges = sorted((spec.mem_offset, spec.mem_offset + spec.nbytes) for spec in specs)
    assert ranges[0][1] <= ranges[1][0], ranges
