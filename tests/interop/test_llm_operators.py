"""Operators of the peer's LLM library: our files run on its runtime; its files name what ours needs for them."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError, ExecutionError

if find_spec("executorch") is None:
    pytest.skip("needs executorch, the peer", allow_module_level=True)

import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (registers the operators)
from executorch.exir import to_edge
from executorch.extension.pybindings import portable_lib

llama = torch.ops.llama
ROWS, HEADS, GROUPS, DEPTH = 16, 4, 2, 8


class Layer(nn.Module):
    """Attention over a cache, written by `update_cache`, in the form of executorch's exporter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(1, ROWS, GROUPS, DEPTH))
        self.register_buffer("v_cache", torch.zeros(1, ROWS, GROUPS, DEPTH))

    def forward(self, q, k, v, position):
        start = position.item()
        torch._check(start >= 0)
        torch._check(start + q.shape[1] <= ROWS)
        return self.attend(q, k, v, start)

    def attend(self, q, k, v, start):
        llama.update_cache(k, self.k_cache, start)
        llama.update_cache(v, self.v_cache, start)
        return llama.custom_sdpa(q, self.k_cache, self.v_cache, start, None, 0.0, True)


class OneOperator(Layer):
    """The same by the operator that writes both caches."""

    def attend(self, q, k, v, start):
        return llama.sdpa_with_kv_cache(q, k, v, self.k_cache, self.v_cache, start, q.shape[1], None, 0.0, True)


class ByIndices(Layer):
    """The same, where a tensor says which row each token goes to."""

    def forward(self, q, k, v, position):
        start = position.item()
        torch._check(start >= 0)
        torch._check(start + q.shape[1] <= ROWS)
        indices = (torch.arange(q.shape[1]) + position).unsqueeze(0)
        llama.update_cache_with_indices(k, self.k_cache, 0, indices)
        llama.update_cache_with_indices(v, self.v_cache, 0, indices)
        return llama.custom_sdpa(q, self.k_cache, self.v_cache, start, None, 0.0, True)


def inputs(tokens, position):
    generator = torch.Generator().manual_seed(position)
    shapes = (1, tokens, HEADS, DEPTH), (1, tokens, GROUPS, DEPTH), (1, tokens, GROUPS, DEPTH)
    return *(torch.randn(shape, generator=generator) for shape in shapes), torch.tensor([position])


def operators_of(buffer):
    (plan,) = fmt.read_pte(buffer).program.execution_plan
    return [f"{operator.name}.{operator.overload}" for operator in plan.operators], plan


@pytest.mark.parametrize("kind", [Layer, OneOperator, ByIndices])
def test_a_file_of_ours_runs_on_the_peer_with_its_cache_in_place(kind):
    tokens = torch.export.Dim("tokens", min=1, max=8)
    shapes = {"q": {1: tokens}, "k": {1: tokens}, "v": {1: tokens}, "position": None}
    file = edgecore.compile(kind().eval(), inputs(5, 0), dynamic_shapes=shapes).buffer
    names, plan = operators_of(file)
    assert not {"aten::copy_.", "dim_order_ops::_clone_dim_order.out", "aten::copy.out"} & set(names)
    caches = 2 * 4 * ROWS * GROUPS * DEPTH
    assert plan.non_const_buffer_sizes[1] < caches + 256  # the rest is for indices and the peer's unused results
    theirs, eager = portable_lib._load_for_executorch_from_buffer(file), kind()
    for tokens, position in ((5, 0), (1, 5), (1, 6), (8, 7)):
        given = inputs(tokens, position)
        torch.testing.assert_close(theirs.forward(given)[0], eager(*given), atol=1e-6, rtol=1e-6)


class Hadamard(nn.Module):
    """An operator of the library for which no package has a kernel."""

    def forward(self, x):
        return llama.fast_hadamard_transform(x)


def test_a_file_of_the_peer_names_the_operators_that_a_package_must_have():
    theirs = to_edge(torch.export.export(Hadamard(), (torch.ones(2, 8),))).to_executorch().buffer
    with pytest.raises(ExecutionError, match=r"llama::fast_hadamard_transform\.out\. Load a library"):
        edgecore.load(theirs)


def test_both_write_the_same_operators():
    theirs = to_edge(torch.export.export(Layer().eval(), inputs(1, 0))).to_executorch().buffer
    ours = edgecore.compile(Layer().eval(), inputs(1, 0)).buffer
    assert sorted(operators_of(ours)[0]) == sorted(operators_of(theirs)[0])


def test_the_profile_has_the_operators_of_the_installed_library():
    in_library = {name for name in portable_lib._get_operator_names() if name.startswith(("llama::", "preprocess::"))}
    assert fmt.profile_libraries(fmt.EXECUTORCH_1_5)["custom_ops"] == in_library
    assert fmt.profile_libraries(fmt.EDGECORE) is None
    with pytest.raises(ValueError, match="unknown target runtime 'other'"):
        fmt.profile_libraries("other")


def test_the_runtime_of_edgecore_needs_a_package_with_the_kernels():
    with pytest.raises(CompileError, match=r"entry point 'llama' or '.*' in the group 'edgecore\.kernels'"):
        edgecore.compile(Hadamard().eval(), (torch.ones(2, 8),), runtime="edgecore")
