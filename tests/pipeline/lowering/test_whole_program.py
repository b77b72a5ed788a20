"""Whole programs as delegates: alone in a file, and as parts of other modules."""

import copy

import pytest
import torch
from fake_backends import echo_backend  # noqa: F401
from small_models import Counter
from torch import nn
from torch.export import Dim, export

import edgecore
from edgecore.errors import BackendError, CompileError
from edgecore.ir.delegate import delegates
from edgecore.ir.graph import calls
from edgecore.pipeline import to_backend, to_edge, to_edge_transform_and_lower
from edgecore.plugin import CompileSpec

pytestmark = pytest.mark.usefixtures("echo_backend")


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self, x, y):
        total = x * self.weight + y
        return {"sum": total, "twice": total * 2.0}


X, Y = torch.randn(2, 3), torch.randn(2, 3)


class Composite(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, a, b):
        first = self.part(torch.relu(a), b)
        second = self.part(first["twice"], torch.tanh(b))
        return first["sum"] - second["sum"], torch.abs(second["twice"])


def lowered(*inputs, module=None, **options):
    edge = to_edge(export(module or Affine(), inputs or (X, Y), **options))
    return to_backend("EchoBackend", edge.exported_program(), [CompileSpec("level", b"2")])


def test_a_whole_program_becomes_one_delegate():
    module = lowered()
    assert module.backend_id == "EchoBackend" and module.compile_specs == (CompileSpec("level", b"2"),)
    assert module.processed_bytes.decode().splitlines() == ["aten.mul.Tensor", "aten.add.Tensor", "aten.mul.Scalar",
                                                            "level"]  # fmt: skip
    torch.testing.assert_close(module(X, Y), Affine()(X, Y))
    plan = module.program().execution_plan[0]
    assert [one.id for one in plan.delegates] == ["EchoBackend"] and not plan.operators
    assert edgecore.format.read_pte(module.buffer()).program.execution_plan[0].inputs == plan.inputs


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("lower", [to_edge, to_edge_transform_and_lower])
def test_a_composite_of_lowered_modules_is_lowered_again(lower, strict):
    composite = Composite(lowered())
    exported = export(composite, (X, Y), strict=strict)
    torch.testing.assert_close(exported.module()(X, Y), Composite(Affine())(X, Y))
    edge = lower(exported)
    graph_module = edge.exported_program().graph_module
    assert len(delegates(edge.exported_program())) == 2
    assert not calls(graph_module, torch.ops.edgecore.call_lowered.default)
    torch.testing.assert_close(
        tuple(edge.exported_program().module(check_guards=False)(X, Y)), tuple(Composite(Affine())(X, Y))
    )
    plan = edge.to_executorch().executorch_program.execution_plan[0]
    assert len(plan.delegates) == 2 and {one.name for one in plan.operators} == {
        "aten::relu", "aten::tanh", "aten::sub", "aten::abs",
    }  # fmt: skip


def test_the_debug_handles_of_several_delegates_differ():
    program = to_edge(export(Composite(lowered()), (X, Y))).to_executorch()
    handles = [handle for value in program.debug_handle_map["forward"].values()
               for handle in (value if isinstance(value, list) else [value])]  # fmt: skip
    assert len(handles) == len(set(handles)) == 10


def test_a_composite_may_be_partitioned_around_its_lowered_modules(echo_backend):  # noqa: F811
    edge = to_edge_transform_and_lower(export(Composite(lowered()), (X, Y)), partitioner=[echo_backend])
    names = [node.args[0].target for node, _ in delegates(edge.exported_program())]
    assert len(names) == len(set(names)) > 2
    assert all(node.target is not torch.ops.aten.relu.default for node in calls(edge.exported_program().graph_module))


def test_sizes_of_a_lowered_module_may_be_dynamic():
    batch = {"x": {0: Dim("batch", min=1, max=8)}, "y": {0: Dim("batch", min=1, max=8)}}
    module = lowered(dynamic_shapes=batch)
    exported = export(Composite(module), (X, Y), dynamic_shapes={"a": batch["x"], "b": batch["y"]})
    edge = to_edge(exported)
    for size in (1, 5):
        a, b = torch.randn(size, 3), torch.randn(size, 3)
        got = edge.exported_program().module(check_guards=False)(a, b)
        torch.testing.assert_close(tuple(got), tuple(Composite(Affine())(a, b)))
    plan = edge.to_executorch().executorch_program.execution_plan[0]
    assert all(plan.values[index].val.sizes == [8, 3] for index in plan.outputs)


def test_a_program_that_a_backend_refuses_is_an_error():
    class Sine(nn.Module):
        def forward(self, x):
            return torch.sin(x)

    with pytest.raises(CompileError, match="sin is not supported"):
        lowered(X, module=Sine())
    with pytest.raises(BackendError, match="NoBackend"):
        to_backend("NoBackend", to_edge(export(Affine(), (X, Y))).exported_program(), [])


def test_a_program_with_state_is_no_whole_delegate():
    with pytest.raises(CompileError, match=r"writes buffers \(count\)"):
        lowered(torch.randn(1), module=Counter())


def test_a_lowered_module_is_called_as_it_was_exported():
    with pytest.raises(TypeError, match="as it was exported"):
        lowered()(X)


def test_a_partitioner_lowers_a_copy_of_an_edge_program(echo_backend):  # noqa: F811
    program = to_edge(export(Affine(), (X, Y))).exported_program()
    assert len(delegates(to_backend(program, echo_backend))) == 1 and not delegates(program)


def test_a_copy_of_a_composite_shares_its_lowered_modules():
    module = Composite(lowered(X, Y))
    copied = copy.deepcopy(module)
    assert copied.part is module.part
    copied_program = copy.deepcopy(to_edge(export(copied, (X, Y))).exported_program())
    assert len(delegates(copied_program)) == 2


def test_a_lowered_module_may_return_constants_and_takes_tensors_only():
    class Constants(nn.Module):
        def forward(self, x):
            return None, torch.tanh(x) * 2.0, 3

    class Around(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            _, value, three = self.part(x)
            return value + three

    part = lowered(X, module=Constants())
    nothing, value, three = part(X)
    assert nothing is None and three == 3
    torch.testing.assert_close(value, X.tanh() * 2)
    composite = to_edge(export(Around(part), (X,)))
    assert len(delegates(composite.exported_program())) == 1 and composite.to_executorch().buffer

    class Scaled(nn.Module):
        def forward(self, x, n: int):
            return x * n

    with pytest.raises(TypeError, match="takes tensors only, not 3"):
        lowered(X, 3, module=Scaled())(X, 3)


def test_what_is_no_edge_program_is_refused_in_one_sentence():
    edge = to_edge(export(Affine(), (X, Y)))
    with pytest.raises(TypeError, match="such as edge.exported_program.*not str and EdgeProgramManager"):
        to_backend("EchoBackend", edge)
    with pytest.raises(TypeError, match="not two edge programs"):
        to_backend(edge.exported_program(), edge.exported_program())
