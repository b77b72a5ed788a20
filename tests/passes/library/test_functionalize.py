"""In-place operators and writes through views become operators that return new tensors."""

import copy
import random
from importlib.util import find_spec

import pytest
import torch
from edge_programs import Model, export, inplace_chain
from torch import nn
from zoo import torchvision_models

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program
from edgecore.passes.in_place import is_mutable
from edgecore.passes.library.functionalize import functionalize


def write_through_view(self, x):
    y = x + 1
    y[0].mul_(3)
    return y


def write_under_view(self, x):
    y = x + 1
    z = y.view(-1)
    y.relu_()
    return z + 1


def write_into_input(self, x):
    x.add_(1)
    return x * 2


def write_of_another_dtype(self, x):
    y = x + 1
    y.add_(x.double())
    return y.gt_(0.5)


def write_after_dropout(self, x):
    y = x + 1
    z = nn.functional.dropout(y, training=False)
    y.relu_()
    return z + y


def assign_slices(self, x):
    mask = x.new_zeros((6, 8))
    for count, rows in enumerate((slice(0, -3), slice(-3, -1), slice(-1, None))):
        mask[rows, 1:-2] = count
    return mask.view(2, 3, 8) + x[0, 0]


def write_through_a_chain_of_views(self, x):
    y = x.clone()
    row = y.transpose(0, 1)[1:3].unsqueeze(0)
    before = row + 1
    row.mul_(2)
    row[0, 0].add_(before[0, 1])
    return y, row, y.diagonal()


def write_parts(self, x):
    y = x * 2
    first, second = y.split(2, 1)
    first.copy_(second)
    y.unbind(0)[1].fill_(3.0)
    return first, second, y


def write_a_diagonal(self, x):
    y = x * 2
    y.diagonal().zero_()
    return y


def write_a_copy_and_a_view(self, x):
    y = x * 2
    copied, viewed = y.t().reshape(-1), y.reshape(-1)
    viewed[2:5].neg_()
    copied[0] = 7
    return y, copied, viewed, y.contiguous().clamp_(0, 1), y


def write_another_dtype_and_shape(self, x):
    y = torch.zeros(3, 4, dtype=torch.int32)
    y.copy_(x[:1] * 10)
    y[1].copy_(torch.tensor(2.7))
    return y


def write_channels_last(self, x):
    y = x.view(1, 3, 2, 2).contiguous(memory_format=torch.channels_last) + 1
    y[:, 1].relu_()
    y.copy_(x.view(1, 3, 2, 2))
    return torch.nn.functional.avg_pool2d(y, 2)


def write_permuted(self, x):
    y = x + 1
    y.view(3, 2, 2).permute(2, 0, 1)[0].squeeze(0).exp_()
    y.flatten()[-1:].sub_(1)
    return y


OWN = [
    assign_slices,
    write_through_a_chain_of_views,
    write_parts,
    write_a_diagonal,
    write_a_copy_and_a_view,
    write_another_dtype_and_shape,
    write_channels_last,
    write_permuted,
]


@pytest.fixture
def without_torch(monkeypatch):
    """Let torch's own functionalization fail."""

    def refuse(*args, **kwargs):
        raise AssertionError("torch's functionalization was called")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)


@pytest.mark.parametrize("function", OWN)
def test_writes_through_views_need_no_functionalization_of_torch(function, without_torch):
    x = torch.randn(3, 4)
    program = functionalize(copy_program(export(function, x.clone())))
    assert not [node for node in calls(program.graph_module) if is_mutable(node)]
    torch.testing.assert_close(program.module(check_guards=False)(x.clone()), Model(function)(x.clone()))


@pytest.mark.full
def test_a_swin_transformer_needs_no_functionalization_of_torch(without_torch):
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    model, x = torchvision_models().swin_t().eval(), torch.randn(1, 3, 64, 64)
    program = functionalize(copy_program(torch.export.export(model, (x,))))
    with torch.no_grad():
        torch.testing.assert_close(program.module(check_guards=False)(x), model(x), rtol=1e-4, atol=1e-5)


def write_a_view_of_a_composite(self, x):
    y = x + 1
    volume = torch.atleast_3d(y)
    volume.add_(1)
    return y, volume


def write_powers(self, x):
    y = x + 1
    y.pow_(2)
    y **= 3
    return y.pow_(x)


def write_beside_a_number_of_the_data(self, x):
    y, count = x + 1, x.flatten()[0].to(torch.int64).item()
    torch._check(count >= 0)
    y[torch.arange(2)] = torch.arange(x.shape[0] - 1).to(x.dtype)[:, None] + count
    return y, torch.nonzero(y > 1).sum(), torch.where(y > 1)[0].sum()


def write_named_results(self, x):
    y, both = x + 1, x.new_empty(6, 4)
    torch.cat([y, y * 2], out=both)
    both.mul_(2)
    return torch.add(y, 1, out=y), both, y


def write_through_einsum(self, x):
    y = x + 1
    turned = torch.einsum("ij->ji", y)
    turned.add_(1)
    turned[0].mul_(2)
    return y, turned


def write_under_composites(self, x):
    y, z = x[0] + 1, x[1] * 2
    rows, columns = torch.meshgrid(y, z, indexing="ij")
    wide, _ = torch.broadcast_tensors(y, x.unsqueeze(0))
    y.mul_(2)
    z[0].add_(3)
    return rows, columns, wide, rows + columns


def write_through_other_composites(self, x):
    y = x + 1
    y.movedim(0, 1)[1].mul_(2)
    y.swapaxes(0, 1).tensor_split(3)[1].neg_()
    y.T.fill_diagonal_(7.0)
    y.mT.unsqueeze(0).ravel()[3:5].zero_()
    return y, torch.atleast_2d(y).add_(1), y


def write_after_a_dropout_of_nothing(self, x):
    y = x + 1
    nn.functional.dropout(y, 0.0, training=True).add_(1)
    return y


def read_strided(self, x):
    y = x + 1
    first = torch.as_strided_copy(y[1:], (2, 2), (2, 1), 0)
    return first, y[1:].as_strided((2, 2), (1, 4), 0) + 1, y[2].as_strided((2, 1), (1, 0))


def read_strided_composites(self, x):
    return torch.atleast_2d((x + 1)[1]).as_strided((2, 2), (1, 1), 0) * 2


def write_strided(self, x):
    y = torch.cat([x, x + 1, x + 2])
    corner = y[1:].as_strided((2, 3), (1, 4), 2)
    y.add_(1)
    corner.mul_(2)
    y.fill_diagonal_(5.0, wrap=True)
    return corner, y


class Accumulates(nn.Module):
    """Writes two buffers, one of them through a view, and its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("cache", torch.zeros(5, 4))
        self.register_buffer("unused", torch.ones(2))

    def forward(self, x, row):
        self.cache[2:4] = x[:2]
        self.total += self.cache.sum(0)
        row.add_(self.total)
        return self.cache[1:3] * 2, self.total.relu()


def test_strides_of_an_input_count_from_its_own_start():
    """An example input may be a part of a larger tensor; the inputs of a call are not."""
    model, x = Model(lambda self, x: x.as_strided((2, 2), (2, 1)) + 1), torch.arange(9.0)[2:]
    program = edgecore.load(edgecore.compile(torch.export.export(model, (x,))).buffer)
    torch.testing.assert_close(program.forward(x), model(x))


def test_strides_of_a_tensor_that_is_read_in_another_dtype_are_refused():
    model, x = Model(lambda self, x: (x + 1).view(torch.int32).as_strided((2, 2), (2, 1)) * 2), torch.randn(3, 4)
    with pytest.raises(CompileError, match="the tensor that owns the memory must be .* of the same dtype"):
        edgecore.compile(torch.export.export(model, (x,)))


def test_written_buffers_and_inputs_become_results(without_torch):
    model, x, row = Accumulates().eval(), torch.randn(3, 4), torch.randn(4)
    program = functionalize(copy_program(torch.export.export(copy.deepcopy(model), (x, row.clone()))))
    kinds = [(spec.kind.name, spec.target) for spec in program.graph_signature.output_specs]
    assert kinds == [
        ("BUFFER_MUTATION", "total"), ("BUFFER_MUTATION", "cache"), ("USER_INPUT_MUTATION", "row"),
        ("USER_OUTPUT", None), ("USER_OUTPUT", None),
    ]  # fmt: skip
    exported = program.module(check_guards=False)
    for _ in range(3):
        mine, theirs = row.clone(), row.clone()
        torch.testing.assert_close(exported(x, mine), model(x, theirs))
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(exported.cache, model.cache)


class Assigns(nn.Module):
    """Assigns to the names of its buffers; views of the old tensors stay what they are."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3, 4))
        self.register_buffer("other", torch.ones(3, 4))

    def forward(self, x):
        row, whole = self.state[0], self.state
        self.state = x * 2
        row.add_(1)
        self.state.mul_(3)
        self.other = torch.einsum("ij->ji", whole).t() + self.state
        return row, self.state + 1, whole, self.other


class AssignsDropout(Assigns):
    """Assigns the result of an operator that lowering removes."""

    def forward(self, x):
        row = self.state[0]
        self.state = nn.functional.dropout(x + 1, 0.5, self.training)
        return row, row + 1


@pytest.mark.parametrize("kind", [Assigns, AssignsDropout])
def test_an_assigned_buffer_is_apart_from_views_of_the_old_one(kind, without_torch):
    model, x = kind().eval(), torch.randn(3, 4)
    program = edgecore.load(edgecore.compile(torch.export.export(copy.deepcopy(model), (x,))).buffer)
    for _ in range(3):
        torch.testing.assert_close(tuple(program.forward(x)), model(x))


class Trains(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x):
        return nn.functional.batch_norm(x, self.mean, self.var, training=True, momentum=0.3)


def test_a_batch_norm_in_training_updates_its_statistics():
    model, x = Trains().eval(), torch.randn(2, 3, 4, 4)
    program = edgecore.load(edgecore.compile(copy.deepcopy(model), (x,)).buffer)
    for _ in range(3):
        torch.testing.assert_close(program.forward(x), model(x))
        x = x * 2 + program.forward(x).mean() - model(x).mean()
    model.eval()
    program = torch.export.export(copy.deepcopy(model), (x,))
    updated = functionalize(copy_program(program)).module(check_guards=False)
    torch.testing.assert_close(updated(x), model(x))
    torch.testing.assert_close((updated.mean, updated.var), (model.mean, model.var))


VIEWS = [
    lambda t: t[1:], lambda t: t[:, ::2], lambda t: t[-1:], lambda t: t.t(), lambda t: t.select(0, 0).unsqueeze(1),
    lambda t: t.reshape(-1, 1), lambda t: t.split(1, 1)[0], lambda t: t.narrow(0, 0, 1), lambda t: t.contiguous(),
]  # fmt: skip
WRITES = [
    lambda t, x: t.mul_(2), lambda t, x: t.add_(x.sum()), lambda t, x: t.copy_(x[:1, :1]), lambda t, x: t.fill_(0.5),
    lambda t, x: t.clamp_(max=1), lambda t, x: t.relu_().neg_(),
]  # fmt: skip


def drawn(seed):
    """Return a function of random views of one tensor, and of writes to and reads of them."""

    def function(self, x):
        draw = random.Random(seed)
        tensors, read = [x + 1], []
        for _ in range(9):
            tensor = draw.choice(tensors)
            if draw.random() < 0.5:
                tensors.append(draw.choice(VIEWS)(tensor))
            elif draw.random() < 0.7:
                draw.choice(WRITES)(tensor, x)
            else:
                read.append(tensor.sin())
        return *read, *(tensor + 0 for tensor in tensors)

    return function


@pytest.mark.parametrize("seed", range(12))
def test_random_views_and_writes_equal_eager(seed, without_torch):
    check_drawn(seed)


@pytest.mark.full
def test_many_random_views_and_writes_equal_eager(without_torch):
    for seed in range(12, 300):
        check_drawn(seed)


def check_drawn(seed):
    x = torch.randn(4, 4)
    program = functionalize(copy_program(export(drawn(seed), x)))
    torch.testing.assert_close(program.module(check_guards=False)(x), Model(drawn(seed))(x))


@pytest.mark.parametrize(
    "function",
    [
        inplace_chain,
        write_through_view,
        write_under_view,
        write_of_another_dtype,
        write_after_dropout,
        write_into_input,
        *OWN,
    ],
)
def test_a_functionalized_program_equals_eager_and_torch(function):
    x = torch.randn(3, 4)
    program = export(function, x.clone())
    functional = functionalize(copy_program(program))
    assert not any(
        node.target._schema.is_mutable
        for node in calls(functional.graph_module)
        if isinstance(node.target, torch._ops.OpOverload)
    )
    expected = Model(function)(x.clone())
    torch.testing.assert_close(functional.module(check_guards=False)(x.clone()), expected)
    if function is write_after_dropout:
        return  # torch makes the dropout a copy
    by_torch = program.run_decompositions({}).module(check_guards=False)
    torch.testing.assert_close(by_torch(x.clone()), expected)


def write_lists(self, x):
    a, b = x.clone(), x * 2
    torch._foreach_add_([a, b], [x, x], alpha=2)
    torch._foreach_addcmul_([a], [b], [x], value=0.5)
    torch._foreach_mul_([a, b], [2.0, 3.0])
    torch._foreach_copy_([b], [a])
    return a, b


def write_elements_by_number(self, x):
    y = x.clone()
    y.t().put_(torch.tensor([[-1, 0]]), torch.tensor([[9.0, 8.0]]))
    return y.put_(torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), accumulate=True)


def write_after_a_resize(self, x):
    y = x.clone()
    y.resize_(2, 6)
    return y.add_(1)


def write_a_symbolic_diagonal(self, x):
    y = x.clone()
    y.diagonal(-1).mul_(3)
    y.diagonal().fill_(2.0)
    return y


def write_strided_symbolic_sizes(self, x):
    y = x.clone()
    y.as_strided((x.shape[0],), (2,)).fill_(1.0)
    return y


@pytest.mark.parametrize(
    "function",
    [
        write_after_a_dropout_of_nothing,
        read_strided,
        read_strided_composites,
        write_strided,
        write_a_view_of_a_composite,
        write_powers,
        write_beside_a_number_of_the_data,
        write_named_results,
        write_through_einsum,
        write_under_composites,
        write_through_other_composites,
        write_lists,
        write_elements_by_number,
        write_after_a_resize,
    ],
)
def test_writes_of_all_kinds_equal_eager(function):
    x = torch.rand(3, 4)
    got = edgecore.load(edgecore.compile(export(function, x)).buffer).forward(x)
    want = Model(function)(x)
    torch.testing.assert_close(tuple(got) if isinstance(want, tuple) else got, want)


@pytest.mark.parametrize("function", [write_a_symbolic_diagonal, write_strided_symbolic_sizes])
def test_writes_to_parts_of_symbolic_sizes_equal_eager(function):
    rows, columns = torch.export.Dim("rows", min=2, max=8), torch.export.Dim("columns", min=2, max=8)
    exported = torch.export.export(
        Model(function), (torch.rand(3, 4),), dynamic_shapes={"args": ({0: rows, 1: columns},)}
    )
    loaded = edgecore.load(edgecore.compile(exported).buffer)
    for shape in ((3, 4), (6, 3), (2, 7)):
        x = torch.rand(shape)
        torch.testing.assert_close(loaded.forward(x), Model(function)(x))


def test_random_writes_have_the_distribution_of_eager():
    def write(self, x):
        coins, numbers = x.clone(), x.clone()
        coins.bernoulli_(0.25)
        numbers.uniform_(2.0, 3.0)
        return coins, numbers, x.clone().normal_(5.0, 0.1), x.clone().bernoulli_()

    coins, numbers, normal, halves = map(torch.as_tensor, edgecore.load(
        edgecore.compile(export(write, torch.zeros(100, 100))).buffer).forward(torch.zeros(100, 100)))  # fmt: skip
    assert set(coins.unique().tolist()) == {0.0, 1.0} and 0.2 < coins.mean() < 0.3 and 0.45 < halves.mean() < 0.55
    assert 2 <= numbers.min() < 2.1 and 2.9 < numbers.max() <= 3 and 4.9 < normal.mean() < 5.1
    assert 0.05 < normal.std() < 0.2
