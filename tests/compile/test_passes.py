"""Each pass leaves a verified program that computes the same; and does what it is there for."""

import random

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.backend_dialect import bind_pattern_to_op
from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.verifier import verify
from edgecore.passes import (
    ExportPass,
    PassManager,
    convert_dim_order,
    expand_bound_operators,
    merge_common_subexpressions,
    merge_views,
    narrow_integers,
    remove_dead_code,
    replace_pattern,
)
from edgecore.passes.fold_constants import fold_constants
from edgecore.passes.quantized import (
    QuantizationParameters,
    fold_quantize,
    insert_pair,
    is_dequantize,
    is_quantize,
    propagate_quantize,
)
from edgecore.passes.remove_identities import remove_identities
from edgecore.pipeline import ExecutorchBackendConfig, to_edge

aten = torch.ops.aten


def kernels_after_lowering(conv, *shape, **export):
    """The convolution's shape of kernel and padding in the edge program, which is checked against eager."""
    x = torch.randn(shape)
    program = to_edge(torch.export.export(conv.eval(), (x,), **export)).exported_program()
    verify(program)
    torch.testing.assert_close(program.module()(x), conv(x), rtol=1e-5, atol=1e-5)
    (node,) = calls(program.graph_module, aten.convolution.default)
    return tuple(node.args[1].meta["val"].shape[2:]), list(node.args[4])


def test_taps_of_a_kernel_that_only_meet_padding_are_cut_off():
    pyramid = [nn.Conv2d(4, 5, 3, padding=rate, dilation=rate) for rate in (4, 13, 14, 36)]
    kernels = [kernels_after_lowering(conv, 1, 4, 14, 13) for conv in pyramid]
    assert kernels == [((3, 3), [4, 4]), ((3, 1), [13, 0]), ((1, 1), [0, 0]), ((1, 1), [0, 0])]
    assert kernels_after_lowering(nn.Conv2d(4, 4, 5, 2, 2, groups=4), 2, 4, 1, 2) == ((1, 3), [0, 1])
    assert kernels_after_lowering(nn.Conv1d(4, 4, 7, padding=3), 1, 4, 3) == ((5,), [2])
    assert kernels_after_lowering(nn.Conv2d(2, 2, 1, 20, 5), 1, 2, 1, 1) == ((1, 1), [5, 5])


def test_taps_are_kept_where_the_number_of_pixels_is_symbolic():
    dims = {2: torch.export.Dim("pixels", min=2, max=64)}
    conv = nn.Conv2d(4, 4, 3, padding=9, dilation=9)
    assert kernels_after_lowering(conv, 1, 4, 5, 5, dynamic_shapes=(dims,)) == ((3, 1), [9, 0])


class Model(nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.register_buffer(name, part) if isinstance(part, torch.Tensor) else self.add_module(name, part)

    def forward(self, *args):
        return self.function(self, *args)


def edge_of(function, *inputs, **parts):
    return to_edge(torch.export.export(Model(function, **parts).eval(), inputs)).exported_program()


def targets(program):
    return [node.target for node in calls(program.graph_module)]


def check(program, function, *inputs, **parts):
    verify(program)
    expected = Model(function, **parts).eval()(*inputs)
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), expected, atol=1e-5, rtol=1e-5)


# Random graphs with aliases, in-place operators and repeated results ----------------------------------------------------

STEPS = (
    lambda r, v: v + v.sum() * 0.1, lambda r, v: (v * 2 + 1).transpose(-1, -2).contiguous().transpose(-1, -2),
    lambda r, v: v.reshape(-1).view(v.shape), lambda r, v: v.permute(1, 0).permute(1, 0), lambda r, v: v.t().t() * 1,
    lambda r, v: v.unsqueeze(0).squeeze(0), lambda r, v: v.clone().relu_().add_(1), lambda r, v: v.flip(0).sigmoid(),
    lambda r, v: (v.view(-1)[: v.numel()]).view(v.shape), lambda r, v: v.to(torch.float64).to(torch.float32),
    lambda r, v: torch.cat([v]), lambda r, v: torch.cat([v, v])[: v.shape[0]], lambda r, v: v.expand(2, *v.shape)[1],
    lambda r, v: v + torch.arange(v.shape[-1]), lambda r, v: v[torch.arange(v.shape[0] - 1, -1, -1)],
)  # fmt: skip


def random_model(seed):
    steps = random.Random(seed).choices(range(len(STEPS)), k=10)
    picks = [random.Random((seed, i).__hash__()).randrange(i + 1) for i in range(10)]

    def function(self, x, state):
        values = [x]
        for step, pick in zip(steps, picks, strict=True):
            values.append(STEPS[step](self, values[pick]))
        self.memory.mul_(0.5).add_(values[3])
        return values[-1], values[5], values[5], self.memory + state, x

    return function


PASSES = {
    "identities": remove_identities,
    "constants": fold_constants,
    "dead code": remove_dead_code,
    "common": merge_common_subexpressions,
    "views": merge_views,
    "integers": narrow_integers,
    "quantize": propagate_quantize,
    "channels last": convert_dim_order(torch.channels_last),
}


@pytest.mark.parametrize("seed", range(6))
def test_every_pass_keeps_the_meaning_of_random_graphs(seed):
    function, inputs = random_model(seed), (torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(3, 4))
    exported = torch.export.export(Model(function, memory=torch.ones(3, 4)), inputs)
    expected = Model(function, memory=torch.ones(3, 4))(*inputs)
    for name, one in PASSES.items():
        exported.state_dict["memory"].fill_(1)  # running the program changes it
        program = to_edge(exported).exported_program()
        changed = PassManager([one], run_checks_after_each_pass=True)(program)
        got = changed.module(check_guards=False)(*inputs)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    exported.state_dict["memory"].fill_(1)
    everything = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=list(PASSES.values()))
    loaded = edgecore.load(everything.to_executorch().buffer)
    torch.testing.assert_close(tuple(loaded.forward(*inputs)), expected, atol=1e-5, rtol=1e-5)


# What each pass does ------------------------------------------------------------------------------------------------------


def test_equal_calls_are_merged_but_not_random_ones_nor_other_numbers():
    def function(s, x):
        return x.exp() + x.exp(), x + 1, x + 1.0, x * 0.0, x * -0.0

    x = torch.tensor([1.0, -2.0])
    program = merge_common_subexpressions(edge_of(function, x))
    assert targets(program).count(aten.exp.default) == 1
    assert targets(program).count(aten.mul.Scalar) == 2
    check(program, function, x)
    noise = merge_common_subexpressions(edge_of(lambda s, x: torch.rand(4) - torch.rand(4), x))
    assert targets(noise).count(aten.rand.default) == 2


def test_chains_of_views_disappear():
    def function(s, x):
        a = x.relu().view(2, 12).view(4, 6).unsqueeze(1).squeeze(1).view(2, 3, 4)
        b = x.relu().permute(2, 0, 1).permute(1, 2, 0).transpose(0, 1).transpose(1, 0)
        return a + b + x.relu().transpose(1, 2).permute(2, 0, 1).transpose(0, 1).permute(0, 1, 2)

    x = torch.randn(2, 3, 4)
    program = merge_views(edge_of(function, x))
    check(program, function, x)
    moves = [target for target in targets(program) if target not in (aten.relu.default, aten.add.Tensor)]
    assert moves in ([], [aten.permute_copy.default], [aten.clone.default])


def test_dim_order_both_ways():
    conv = nn.Conv2d(3, 8, 3)
    function = lambda s, x: s.conv(x).relu() + 1
    x = torch.randn(1, 3, 6, 6)
    program = convert_dim_order(torch.channels_last)(edge_of(function, x, conv=conv))
    (node,) = calls(program.graph_module, aten.convolution.default)
    assert not node.meta["val"].is_contiguous()
    assert node.meta["val"].is_contiguous(memory_format=torch.channels_last)
    check(program, function, x, conv=conv)
    y = x.to(memory_format=torch.channels_last)
    back = convert_dim_order(torch.contiguous_format)(edge_of(function, y, conv=conv))
    assert calls(back.graph_module, aten.convolution.default)[0].meta["val"].is_contiguous()
    check(back, function, y, conv=conv)
    for shape, given, one in ((torch.channels_last, x, program), (torch.contiguous_format, y, back)):
        exported = torch.export.export(Model(function, conv=conv).eval(), (given,))
        lowered = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=[convert_dim_order(shape)])
        result = edgecore.load(lowered.to_executorch().buffer).forward(given)
        torch.testing.assert_close(result, one.module(check_guards=False)(given), atol=1e-5, rtol=1e-5)
    with pytest.raises(CompileError, match="channels_last or contiguous_format"):
        convert_dim_order(torch.preserve_format)


def test_index_arithmetic_is_narrowed_and_runs():
    table = nn.Embedding(10, 4)

    def function(s, x):
        positions = (torch.arange(5) * 2 - 1).clamp(0, 9)
        best = x.argmax(1) + 1
        return s.table(positions), s.table(best), x.argmax(1), s.indices * 1, torch.gather(x, 1, s.indices[None, :1])

    indices, x = torch.tensor([1, 2]), torch.randn(3, 5)
    program = narrow_integers(edge_of(function, x, table=table, indices=indices))
    check(program, function, x, table=table, indices=indices)
    for node in calls(program.graph_module, aten.embedding.default):
        assert node.args[1].meta["val"].dtype == torch.int32
    for node in calls(program.graph_module, aten.argmax.default, aten.gather.default):
        assert all(source.meta["val"].dtype != torch.int32 for source in node.all_input_nodes)
    exported = torch.export.export(Model(function, table=table, indices=indices).eval(), (x,))
    lowered = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=[narrow_integers])
    expected = list(Model(function, table=table, indices=indices)(x))
    torch.testing.assert_close(edgecore.load(lowered.to_executorch().buffer).forward(x), expected)


def test_values_that_do_not_fit_stay_wide():
    table = nn.Embedding(4, 2)
    function = lambda s, x: s.table((torch.arange(3) * 2**31).clamp(0, 3)) + x
    program = narrow_integers(edge_of(function, torch.ones(2), table=table))
    assert all(node.meta["val"].dtype != torch.int32 for node in calls(program.graph_module))


def test_numbers_are_quantized_where_data_moves():
    parameters = QuantizationParameters(0.1, 3, -128, 127, torch.int8)
    x = torch.randn(2, 6)
    program = edge_of(lambda s, x: (x * 1).view(3, 4).permute(1, 0) * s.weight, x, weight=torch.ones(3))
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        first, last = calls(graph_module, aten.mul.Scalar)[0], calls(graph_module, aten.mul.Tensor)[0]
        for node, user in ((first, first.next), (last.args[0], last)):
            user.replace_input_with(node, insert_pair(Editor(graph_module, user, mode), node, parameters))
    before = program.module(check_guards=False)(x)
    program = propagate_quantize(program)
    verify(program)
    torch.testing.assert_close(program.module(check_guards=False)(x), before)
    quantized = [node for node in calls(program.graph_module) if is_quantize(node) or is_dequantize(node)]
    assert [is_quantize(node) for node in quantized] == [True, False], program.graph
    assert calls(program.graph_module, aten.view_copy.default)[0].meta["val"].dtype == torch.int8


def test_quantized_weights_are_stored_quantized():
    rest = (0.1, 0, -128, 127, torch.int8)
    library = torch.ops.quantized_decomposed

    def function(s, x):
        quantized = library.quantize_per_tensor(s.weight, *rest)
        return x * library.dequantize_per_tensor(quantized, *rest)

    program = fold_quantize(edge_of(function, torch.ones(3), weight=torch.tensor([1.0, -2.0, 3.0])))
    assert [tensor.dtype for tensor in program.state_dict.values()] == [torch.int8]
    check(program, function, torch.ones(3), weight=torch.tensor([1.0, -2.0, 3.0]))


# Pass infrastructure ------------------------------------------------------------------------------------------------------


class AddToSubtract(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != aten.add.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        x, y = args
        negative = super().call_operator(aten.neg.default, (y,), {}, meta)
        return super().call_operator(aten.sub.Tensor, (x, negative), {}, meta)

    def ensures(self, graph_module):
        if calls(graph_module, aten.add.Tensor):
            raise ValueError("an addition is left")


class RemoveRelu(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return args[0] if op == aten.relu.default else super().call_operator(op, args, kwargs, meta)

    def requires(self, graph_module):
        if not calls(graph_module, aten.relu.default):
            raise ValueError("no relu to remove")


def test_passes_as_the_documentation_writes_them():
    x, y = torch.randn(2), torch.randn(2)
    program = PassManager([AddToSubtract(), RemoveRelu()])(edge_of(lambda s, x, y: (x + y).relu(), x, y))
    check(program, lambda s, x, y: x + y, x, y)
    assert targets(program) == [aten.neg.default, aten.sub.Tensor]
    assert all(node.meta.get("stack_trace") for node in calls(program.graph_module))
    result = AddToSubtract()(program.graph_module)
    assert result.graph_module is program.graph_module
    assert not result.modified
    with pytest.raises(ValueError, match="no relu"):
        RemoveRelu()(program.graph_module)


def break_program(program):
    with edit(program) as graph_module:
        calls(graph_module)[0].meta.pop("val")
    return program


def test_checks_after_each_pass_name_the_pass(monkeypatch):
    x = torch.randn(2)
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES", raising=False)
    assert PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    monkeypatch.setenv("EDGECORE_VERIFY_PASSES", "1")
    with pytest.raises(CompileError, match="after the pass break_program: .*has no val"):
        PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    PassManager([break_program], suppress_check_failures=True)(edge_of(lambda s, x: x + 1, x))

    def no_relu(graph_module):
        if calls(graph_module, aten.relu.default):
            raise ValueError("a relu")

    manager = PassManager([remove_dead_code])
    manager.add_checks(no_relu)
    with pytest.raises(CompileError, match="after the pass remove_dead_code: a relu"):
        manager(edge_of(lambda s, x: x.relu(), x))


# Backend dialect ----------------------------------------------------------------------------------------------------------

library = torch.library.Library("edgecore_test", "DEF")


@bind_pattern_to_op(library, "edgecore_test::add_relu(Tensor self, Tensor other) -> Tensor")
def add_relu(x, y):
    return aten.relu.default(aten.add.Tensor(x, y))


def test_a_pattern_becomes_a_backend_operator_and_back():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    function = lambda s, x, y: (x + y).relu() * (x * y + 1).relu() + (x - y).relu()
    program = replace_pattern(torch.ops.edgecore_test.add_relu.default)(edge_of(function, x, y))
    assert targets(program).count(torch.ops.edgecore_test.add_relu.default) == 1
    assert torch.equal(torch.ops.edgecore_test.add_relu(x, y), (x + y).relu())
    check(program, function, x, y)
    retraced = torch.export.export(program.module(check_guards=False), (x, y)).run_decompositions()
    assert torch.ops.edgecore_test.add_relu.default not in targets(retraced)
    expanded = expand_bound_operators(program)
    check(expanded, function, x, y)
    assert targets(expanded).count(aten.relu.default) == 3


def test_a_program_with_backend_operators_compiles_once_they_are_expanded():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    manager = to_edge(torch.export.export(Model(lambda s, x, y: (x + y).relu()).eval(), (x, y)))
    manager = manager.transform([replace_pattern(torch.ops.edgecore_test.add_relu.default)])
    with pytest.raises(CompileError, match="edgecore_test.add_relu"):
        manager.to_executorch()
    buffer = manager.to_executorch(ExecutorchBackendConfig(passes=[expand_bound_operators])).buffer
    torch.testing.assert_close(edgecore.load(buffer).forward(x, y), (x + y).relu())


def test_values_read_elsewhere_are_not_fused():
    function = lambda s, x, y: ((z := x + y), z.relu())
    program = replace_pattern(torch.ops.edgecore_test.add_relu.default)(edge_of(function, torch.ones(2), torch.ones(2)))
    assert torch.ops.edgecore_test.add_relu.default not in targets(program)


def test_bad_patterns_and_schemas_are_refused():
    with pytest.raises(CompileError, match="not in the library's namespace edgecore_test"):
        bind_pattern_to_op(library, "other::op(Tensor x) -> Tensor")
    with pytest.raises(CompileError, match="cannot be bound"):
        bind_pattern_to_op(library, "op(Tenzor x) -> Tensor")(add_relu)
    with pytest.raises(CompileError, match="has no pattern"):
        replace_pattern(aten.relu.default)
    with pytest.raises(CompileError, match="write it with overloads"):
        replace_pattern(torch.ops.edgecore_test.add_relu.default, lambda x, y: torch.relu(x + y))
