"""Subclasses of `ExportPass` do the same in executorch and in edgecore: which methods are called, with what, to what effect."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from functorch.experimental import control_flow
from torch._higher_order_ops.scan import scan

from edgecore.executorch.exir.scripts.lowering import to_edge
from edgecore.passes import ExportPass, PassResult, map_args

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
aten = torch.ops.aten
X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Branches(torch.nn.Module):
    def forward(self, x, pred):
        x = torch.cond(pred, lambda x: x + x, lambda x: x.relu(), (x,))
        x = control_flow.map(lambda row: row + row, x)
        return torch.topk(x + x, 2, 1)


class Loops(torch.nn.Module):
    def forward(self, x):
        _, x = torch.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + x), (torch.tensor(0), x))
        _, x = scan(lambda carry, row: (carry + row, carry * row), torch.ones(3), x)
        return (x + x) * x.shape[0]


@cache
def edge_of(library, model):
    if library == "executorch":
        lower = pytest.importorskip("executorch.exir").to_edge
    else:
        lower = to_edge
    if model is Branches:
        return lower(torch.export.export(Branches(), (X, torch.tensor(True))))
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},)
    return lower(torch.export.export(Loops(), (X,), dynamic_shapes=shapes))


def base_of(library):
    return ExportPass if library == "edgecore" else pytest.importorskip("executorch.exir.pass_base").ExportPass


HOOKS = (
    "placeholder", "output", "inputs", "call", "call_operator", "call_getitem", "call_cond", "call_map", "call_submodule",
)  # fmt: skip


def described(value):
    """Return what a pass sees of an argument: of a value its `data` and the `node` that computes it."""
    if isinstance(value, (tuple, list)):
        return [described(part) for part in value]
    if hasattr(value, "data") and hasattr(value, "node"):
        return described(value.data), value.node.op
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, (str, int)):
        return value
    return getattr(value, "__name__", type(value).__name__).removeprefix("aten.")


def calls_of(library):
    """Return the methods that are called of a subclass that overrides all, with their arguments."""
    seen = []

    def recording(hook):
        def method(self, *args):
            seen.append((hook, *map(described, args)))
            return getattr(super(Recorder, self), hook)(*args)

        return method

    Recorder = type("Recorder", (base_of(library),), {hook: recording(hook) for hook in HOOKS})
    Recorder()(edge_of(library, Branches).exported_program().graph_module)
    return seen


def test_each_method_gets_the_arguments_that_it_gets_in_executorch():
    ours = calls_of("edgecore")
    assert {hook for hook, *_ in ours} == {*HOOKS}
    assert ours == calls_of("executorch")


def passes_of(library):
    """Return subclasses by the method that they override, each of which changes what the program computes."""
    base = base_of(library)
    of_edge = library == "executorch"
    ops = pytest.importorskip("executorch.exir.dialects._ops").ops.edge.aten if of_edge else aten

    class Negates(base):
        def negative(self, value, meta):
            return super().call_operator(ops.neg.default, (value,), {}, meta)

    class Placeholder(Negates):
        def placeholder(self, name, arg, meta):
            value = super().placeholder(name, arg, meta)
            return value if arg.dtype is torch.bool else self.negative(value, meta)

    class Output(Negates):
        def output(self, results, meta):
            return super().output([self.negative(results[0], meta), *results[1:]], meta)

    class Operator(base):
        def call_operator(self, op, args, kwargs, meta):
            return super().call_operator(ops.mul.Tensor if op == ops.add.Tensor else op, args, kwargs, meta)

    class Submodule(Operator):
        def call_submodule(self, graph_module, inputs):
            is_branch = len(graph_module.graph.find_nodes(op="placeholder")) == 1
            return PassResult(graph_module, False) if is_branch else super().call_submodule(graph_module, inputs)

    class Getitem(Negates):
        def call_getitem(self, value, key, meta):
            item = super().call_getitem(value, key, meta)
            return self.negative(item, meta) if item.data.dtype is torch.float32 else item

    class Cond(base):
        def call_cond(self, pred, true_fn, false_fn, inputs, meta):
            return super().call_cond(pred=pred, true_fn=false_fn, false_fn=true_fn, inputs=inputs, meta=meta)

    class Map(Negates):
        def call_map(self, f, mapped_args, operands, meta):
            mapped = [self.negative(value, meta) for value in mapped_args]
            return super().call_map(f=f, mapped_args=mapped, operands=operands, meta=meta)

    class While(Negates):
        def call_while(self, cond_fn, body_fn, carried_inputs, additional_inputs, meta):
            count, x = carried_inputs
            carried = [count, self.negative(x, meta)]
            return super().call_while(
                cond_fn=cond_fn, body_fn=body_fn, carried_inputs=carried, additional_inputs=additional_inputs, meta=meta
            )

    class Scan(Negates):
        def call_scan(self, combine_fn, init, xs, additional_inputs, meta):
            xs = [self.negative(value, meta) for value in xs]
            return super().call_scan(
                combine_fn=combine_fn, init=init, xs=xs, additional_inputs=additional_inputs, meta=meta
            )

    class Sizes(Negates):
        def call_operator(self, op, args, kwargs, meta):
            value = super().call_operator(op, args, kwargs, meta)
            if op != ops.add.Tensor or value.data.dim() != 2:
                return value
            for dialect in (False, True):
                rows = self.call_size_operator(tensor_proxy=value, dim=0, meta=meta, edge_dialect=dialect)
                sizes = self.call_size_operator_all(tensor_proxy=value, meta=meta, edge_dialect=dialect)
                assert sizes[1] == 3 and sizes[0].data == rows.data == value.data.shape[0]
                value = super().call_operator(ops.view_copy.default, (value, [sizes[1], rows]), {}, meta)
                value = super().call_operator(ops.view_copy.default, (value, sizes), {}, meta)
                value = super().call_operator(ops.expand_copy.default, (value, sizes), {}, meta)
            return self.negative(value, meta)

    class Twice(Output):
        def call(self, graph_module):
            result = super().call(graph_module)
            return Output().call(Output().call(result.graph_module).graph_module)

    class Inputs(base):
        def inputs(self, graph_module):
            return [torch.full(value.shape, 3, dtype=value.dtype) for value in super().inputs(graph_module)]

        def placeholder(self, name, arg, meta):
            self.seen = [*getattr(self, "seen", ()), arg]
            return super().placeholder(name, arg, meta)

    return {
        "placeholder": Placeholder, "output": Output, "call_operator": Operator, "call_submodule": Submodule,
        "call_getitem": Getitem, "call_cond": Cond, "call_map": Map, "call": Twice, "inputs": Inputs,
        "call_while": While, "call_scan": Scan, "call_size_operator": Sizes,
    }  # fmt: skip


IN_LOOPS = ("call_while", "call_scan", "call_size_operator")


@pytest.mark.parametrize("method", ["placeholder", "output", "call", *HOOKS[4:], *IN_LOOPS])
def test_a_method_that_a_subclass_overrides_has_the_effect_that_it_has_in_executorch(method):
    kind = Loops if method in IN_LOOPS else Branches
    arguments = [(X,), (X.repeat(2, 1),)] if kind is Loops else [(X, torch.tensor(True)), (X, torch.tensor(False))]
    results = {}
    for library in ("edgecore", "executorch"):
        edge = edge_of(library, kind).transform([passes_of(library)[method]()])
        results[library] = [edge.exported_program().module(check_guards=False)(*inputs) for inputs in arguments]
    before = [kind()(*inputs) for inputs in arguments]
    torch.testing.assert_close(results["edgecore"], results["executorch"])
    with pytest.raises(AssertionError):
        torch.testing.assert_close(results["edgecore"], before)


def test_a_pass_interprets_with_the_inputs_that_it_gives():
    for library in ("edgecore", "executorch"):
        concrete = passes_of(library)["inputs"]()
        concrete(edge_of(library, Branches).exported_program().graph_module)
        assert concrete.seen[0].tolist() == [[3.0] * 3] * 2 and concrete.seen[1].item() is True


@pytest.mark.parametrize(
    ("op", "args", "kwargs"),
    [
        (aten.add.Tensor, (1, 2), {"alpha": 3}),
        (aten.full.default, ([1], 2), {"dtype": torch.int64}),
        (aten.sum.dim_IntList, (1, [0]), {"keepdim": True, "dtype": None}),
        (aten.add.Tensor, (1,), {"other": 2}),
    ],
)
def test_arguments_are_mapped_with_their_names_in_the_schema_as_in_executorch(op, args, kwargs):
    results = []
    for function in (map_args, pytest.importorskip("executorch.exir.pass_base").map_args):
        seen = []

        def note(value, spec, seen=seen):
            seen.append((value, spec.name))
            return (value,)

        results.append((function(op, note, args, kwargs), seen))
    assert results[0] == results[1]
    assert len(results[0][1]) == len(args) + len(kwargs)
