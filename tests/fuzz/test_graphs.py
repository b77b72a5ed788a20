"""A short run of the fuzzer of small graphs, the same at every time, and what it must be able to see."""

import platform
from collections import Counter

import pytest
import torch
from fuzz.calls import wide_convolution
from fuzz.check import Finding, Variant, check
from fuzz.draw import Drawer, Rejected
from fuzz.graph import Graph, Leaf, Module, Ref, Step, exported, joined
from fuzz.run import fuzz
from torch.utils._pytree import tree_leaves

import edgecore
from edgecore.cli.blobs import describe_blobs
from edgecore.errors import EdgecoreError

aten = torch.ops.aten


def graph_of(target, *args, shape=(2, 3)):
    x = torch.linspace(-2, 2, max(torch.Size(shape).numel(), 1)).reshape(shape)
    leaf = Leaf("x", x, False, f"torch.linspace(-2, 2, {x.numel()}).reshape({shape})")
    made = target(x, *args)
    return Graph([leaf], [Step("v", target, (Ref("x"), *args))], [Ref("v")]), {"v": made}


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of eager in one order, at every run
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("number", range(6))
def test_random_graphs_compile_and_equal_eager_or_are_refused_in_a_sentence(number, one_thread):
    pytest.importorskip("edgecore_xnnpack")
    counts = Counter()
    fuzz(number, 8, counts, shrink=False)  # `make fuzz-graphs` shrinks, for minutes
    assert counts["ran"] >= counts["graphs"] / 2


def test_a_graph_written_as_code_computes_the_same():
    graph, results = graph_of(aten.sum.dim_IntList, [1], True)
    names = {"torch": torch}
    exec(str(graph), names)
    (made,) = names["Model"]()(*names["inputs"])
    assert torch.equal(made, results["v"])


def convolution_by_name():
    x, w = torch.rand(1, 3, 5, 5), torch.rand(4, 3, 2, 2)
    leaves = [Leaf("x", x, False, "torch.rand(1, 3, 5, 5)"), Leaf("w", w, True, "torch.rand(4, 3, 2, 2)")]
    step = Step("v", aten.conv2d.padding, (Ref("x"), Ref("w"), None, [1, 1], "valid"))
    return Graph(leaves, [step], [Ref("v")]), {"v": aten.conv2d.padding(x, w, None, [1, 1], "valid")}


def test_a_program_put_together_by_hand_is_what_torch_export_makes():
    graph, results = convolution_by_name()
    ours, theirs = exported(graph, results), torch.export.export(Module(graph), graph.inputs)
    calls = [[node.target for node in one.graph.nodes if node.op == "call_function"] for one in (ours, theirs)]
    assert calls[0] == calls[1]
    assert torch.equal(ours.module()(*graph.inputs)[0], theirs.module()(*graph.inputs)[0])


def test_independent_graphs_compile_together():
    pairs = [graph_of(aten.relu.default), graph_of(aten.neg.default)]
    whole = joined([graph for graph, _ in pairs])
    assert [str(ref) for ref in whole.outputs] == ["g0_v", "g1_v"]
    assert check([graph for graph, _ in pairs], [results for _, results in pairs], Variant()) == 2


def test_a_wrong_number_is_a_finding(monkeypatch):
    graph, results = graph_of(aten.add.Scalar, 0.0)
    off = exported(*graph_of(aten.add.Scalar, 1e-5))
    monkeypatch.setattr("fuzz.check.exported", lambda *_: off)
    with pytest.raises(Finding, match="6 of 6 values differ"):
        check([graph], [results], Variant())


@pytest.mark.parametrize("backends", [("xnnpack",), ()])
def test_a_comparison_of_nan_is_undefined_in_xnnpack_alone(backends, monkeypatch):
    pytest.importorskip("edgecore_xnnpack")
    x = torch.tensor([1.0, torch.nan])
    leaf = Leaf("x", x, False, "torch.tensor([1.0, torch.nan])")
    steps = [Step("v", aten.neg.default, (Ref("x"),)), Step("w", aten.ne.Tensor, (Ref("v"), Ref("v")))]
    results = {"v": -x, "w": -x != -x}
    wrong = exported(*graph_of(aten.gt.Scalar, 9.0, shape=(2,)))
    monkeypatch.setattr("fuzz.check.exported", lambda *_: wrong)
    graph = Graph([leaf], steps, [Ref("w")])
    if backends:
        assert check([graph], [results], Variant(backends)) == 1
    else:
        with pytest.raises(Finding, match="1 of 2 values differ"):
            check([graph], [results], Variant(backends))


def test_the_index_of_the_maximum_is_undefined_in_xnnpack_if_there_is_nan():
    pytest.importorskip("edgecore_xnnpack")
    x = torch.tensor([1.0, torch.nan, 2.0])
    steps = [Step("v", aten.argmax.default, (Ref("x"),)), Step("w", aten.max.dim, (Ref("x"), 0))]
    results = {"v": torch.tensor(1), "w": aten.max.dim(x, 0)}
    graph = Graph([Leaf("x", x, False, "torch.tensor([1.0, torch.nan, 2.0])")], steps, [Ref("v"), Ref("w", 1)])
    assert check([graph], [results], Variant(("xnnpack",))) == 1


@pytest.mark.parametrize("infinite", [True, False])
def test_an_interpolation_of_infinities_alone_is_undefined(infinite, monkeypatch):
    x = torch.tensor([[[-torch.inf if infinite else -2.0, 1.0]]])
    leaf = Leaf("x", x, False, f"torch.tensor({x.tolist()})")
    step = Step("v", aten.upsample_linear1d.vec, (Ref("x"), None, True, [2.0]))
    results = {"v": aten.upsample_linear1d.vec(x, None, True, [2.0])}
    wrong = exported(*graph_of(aten.repeat.default, [1, 1, 2], shape=(1, 1, 2)))
    monkeypatch.setattr("fuzz.check.exported", lambda *_: wrong)
    graph = Graph([leaf], [step], [Ref("v")])
    if infinite:
        assert check([graph], [results], Variant()) == 1
    else:
        with pytest.raises(Finding, match="values differ"):
            check([graph], [results], Variant())


def test_the_rounding_of_eager_grows_with_the_root_of_a_distance():
    x, y = torch.rand(3, 1), torch.rand(4, 1)
    leaves = [Leaf("x", x, False, "torch.rand(3, 1)"), Leaf("y", y, False, "torch.rand(4, 1)")]
    step = Step("v", aten._cdist_forward.default, (Ref("x"), Ref("y"), 1e-5, 2))
    results = {"v": aten._cdist_forward.default(x, y, 1e-5, 2)}
    assert check([Graph(leaves, [step], [Ref("v")])], [results], Variant()) == 1


@pytest.mark.parametrize(
    "target, args, kwargs",
    [
        (aten.index_put.default, (torch.zeros(1, 0), [torch.tensor([1])], torch.zeros(1, 0)), {}),
        (aten.addcmul.default, (torch.zeros(0, dtype=torch.int32),) * 3, {"value": 0.5}),
        (aten._cdist_forward.default, (torch.zeros(0, 2), torch.zeros(0, 2).half(), 2.0, None), {}),
        (aten.scaled_dot_product_attention.default, (torch.zeros(4, 0, 0, 1, dtype=torch.int32),) * 3, {}),
        (aten.repeat_interleave.Tensor, (torch.zeros(0, dtype=torch.int32),), {"output_size": 2}),
        (aten.repeat_interleave.self_Tensor, (torch.zeros(0), torch.zeros(0, dtype=torch.int32)), {"output_size": 2}),
    ],
    ids=["index", "value", "dtypes", "integers", "repeats", "size"],
)
def test_a_call_that_eager_takes_without_a_look_is_not_made(target, args, kwargs):
    drawer = Drawer(lambda _: 0)
    leaves = {}
    for value in tree_leaves(args):
        if isinstance(value, torch.Tensor):
            leaves[id(value)] = drawer.leaf(value.shape, value.dtype, 1, 2)
    given = [[leaves[id(one)] for one in value] if isinstance(value, list) else leaves.get(id(value), value)
             for value in args]  # fmt: skip
    target(*args, **kwargs)
    with pytest.raises(Rejected):
        drawer.call(target, *given, **kwargs)


@pytest.mark.parametrize("target", [aten.sum.default, aten.to.dtype])
def test_a_number_without_bounds_is_not_made_an_integer(target):
    drawer = Drawer(lambda _: 0)
    x = drawer.leaf((3,), torch.float32)
    drawer.call(target, x, dtype=torch.int32)
    drawer.value(x)[1] = torch.nan
    with pytest.raises(Rejected):
        drawer.call(target, x, dtype=torch.int32)


def test_padding_by_name_is_a_finding_where_lists_of_one_number_are_not_understood(monkeypatch):
    convolution = pytest.importorskip("edgecore_xnnpack.operators.convolution")
    monkeypatch.setattr(convolution, "for_each", lambda value, count: value)
    graph, results = convolution_by_name()
    with pytest.raises(Finding, match="index out of range"):
        check([graph], [results], Variant(("xnnpack",)))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no Winograd kernels")
def test_a_wide_convolution_is_one_that_xnnpack_computes_by_winograd():
    pytest.importorskip("edgecore_xnnpack")
    drawer = Drawer(lambda _: 0)
    wide_convolution(drawer)
    graph = drawer.graph()
    file = edgecore.compile(exported(graph, drawer.results), backends=["xnnpack"])
    (row,) = describe_blobs(file.pte, None)
    assert any("Winograd F(4x4)" in line for line in row["lines"] if "Conv2d(" in line)
    assert check([graph], [drawer.results], Variant(("xnnpack",))) == 1


def test_an_operator_without_a_kernel_is_an_expected_refusal():
    graph, results = graph_of(aten.digamma.default)
    assert check([graph], [results], Variant()) == 0


def test_a_sentence_that_nobody_expects_is_a_finding(monkeypatch):
    def refuse(*_, **__):
        raise EdgecoreError("something else")

    monkeypatch.setattr("edgecore.compile", refuse)
    graph, results = graph_of(aten.relu.default)
    with pytest.raises(Finding, match="something else"):
        check([graph], [results], Variant())


def test_a_fault_of_the_program_put_together_by_hand_alone_is_no_finding(monkeypatch):
    graph, results = graph_of(aten.relu.default)

    def wrong(*_):
        raise EdgecoreError("not what torch.export makes")

    monkeypatch.setattr("fuzz.check.exported", wrong)
    assert check([graph], [results], Variant()) == 1
