"""Claims of mutable buffers: a buffer is inside of a backend in all methods, or in none."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fake_backends import compiles
from state_models import (
    Cached,
    X,
    assign_input,
    compile_,
    count,
    fill,
    holder,
    holders,
    read,
    read_twice,
    reason,
    run,
    sine_of_cache,
    unsupported,
    write,
    written_elsewhere,
)

import edgecore
from edgecore.errors import CompileError, FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.ir.program.mutable_state import mutable_buffers
from edgecore.partition import CapabilityPartitioner, OperatorRow, OperatorTable, PartitionView
from edgecore.pipeline import chosen_backends

aten = torch.ops.aten


def test_a_buffer_that_a_kernel_of_another_method_uses_stays_outside_of_all_methods():
    edge = compile_({"prefill": fill, "decode": sine_of_cache}, holder())
    assert reason(edge).startswith("in method decode aten.sin.default (node sin")
    assert reason(edge).endswith(") uses it outside of the backend")
    for method in ("prefill", "decode"):
        program = edge.exported_program(method)
        assert [buffer.name for buffer in mutable_buffers(program)] == ["cache"]
        assert not any(module.held_buffers for _, module in delegates(program))
    model = Cached(fill).eval()
    torch.testing.assert_close(run(edge, "prefill", X), model(X))


def test_a_buffer_whose_new_content_a_kernel_computes_stays_outside():
    edge = compile_({"forward": written_elsewhere}, holder())
    assert reason(edge).startswith("aten.sin.default (node sin") and reason(edge).endswith("outside of the backend")


def test_a_buffer_that_gets_an_input_as_its_content_stays_outside():
    edge = compile_({"forward": assign_input}, Claims(holder()), inputs=(X[0],))
    assert reason(edge) == "its new content is the input x, which no operator computes"


def test_a_buffer_that_a_method_returns_stays_outside():
    def returns(self, x):
        return x + 1, self.cache

    edge = compile_({"prefill": fill, "decode": returns}, holder())
    assert reason(edge) == "in method decode the method returns it"


class Claims:
    """A partitioner that claims the same buffers whatever edgecore refused."""

    def __init__(self, base, names=("cache",)):
        self.base, self.names = base, names
        self.asked = []

    def ops_to_not_decompose(self, program):
        return self.base.ops_to_not_decompose(program)

    def partition(self, program):
        result = self.base.partition(program)
        self.asked.append(program)
        return replace(result, claimed_buffers=self.names)


def test_a_written_buffer_must_lie_in_one_partition():
    def split(self, x):
        self.cache.copy_(torch.sin(self.cache * x[0]) + self.cache)
        return x + 1

    edge = compile_({"forward": split}, holder())
    assert reason(edge) == "2 partitions use it, Acme_0, Acme_1, and one of them writes it"


def test_several_partitions_may_read_a_buffer_that_another_method_writes():
    edge = compile_({"prefill": write, "decode": read_twice}, holder())
    assert holders(edge) == {"cache": ("Acme", ("prefill", "decode"))}
    pair = [module.held_buffers for _, module in delegates(edge.exported_program("decode"))]
    assert [[buffer.name for buffer in buffers] for buffers in pair] == [["cache"], ["cache"]]
    torch.testing.assert_close(run(edge, "decode", X), Cached(read_twice)(X))


def test_a_buffer_of_two_backends_stays_outside():
    first = holder("First", outside=(aten.sin.default, aten.add.Tensor))
    edge = compile_({"forward": fill}, first, holder("Second"))
    (row,) = edge.report().buffers
    assert row.where == "edgecore"
    reasons = dict(row.reasons)
    assert reasons["First"].startswith("aten.add.Tensor (node add")
    assert reasons["Second"] == "a delegate of First uses it outside of the backend"


def test_a_partitioner_with_two_backends_cannot_share_a_buffer_between_them():
    class Two(Claims):
        def partition(self, program):
            result = super().partition(program)
            name = "B" if any(node.target is aten.mul.Tensor for node in program.graph.nodes) else "A"
            result.partition_tags = {tag: type(spec)(name) for tag, spec in result.partition_tags.items()}
            return result

    edge = compile_({"prefill": count, "decode": read}, Two(holder()))
    assert {sentence for row in edge.report().buffers for _, sentence in row.reasons} == {
        "partitions of A and B use it"
    }


def test_every_method_must_claim_the_buffer():
    edge = compile_({"a": fill, "b": read}, partitioner={"a": [holder()], "b": [holder(can_hold=None)]})
    assert reason(edge) == "method b uses it and does not claim it"


def test_a_method_without_a_partitioner_keeps_the_buffer_outside():
    edge = compile_({"a": fill, "b": read}, partitioner={"a": [holder()]})
    assert reason(edge).startswith("in method b aten.mul.Tensor (node mul")


@pytest.mark.parametrize(
    ("cache", "difference"),
    [
        (torch.zeros(2, 4), "shape [2, 4]"),
        (torch.zeros(4, dtype=torch.float64), "dtype float64"),
        (torch.ones(4), "initial content"),
    ],
)
def test_buffers_of_one_name_that_differ_between_methods_stay_outside(cache, difference):
    edge = compile_({"a": fill, "b": Cached(fill, cache)}, holder())
    assert {reason for row in edge.report().buffers for _, reason in row.reasons} == {
        f"its {difference} in method b is not that in method a"
    }


def test_a_buffer_that_no_operator_uses_stays_outside():
    def keep(self, x):
        self.cache.copy_(self.cache)
        return x + 1

    assert reason(compile_({"forward": keep}, Claims(holder()))) == "no operator uses it"


def test_a_claim_of_what_is_no_mutable_buffer_is_an_error():
    with pytest.raises(CompileError, match="claims 'weight', which is no mutable buffer of method forward; claim"):
        compile_({"forward": fill}, Claims(holder(), ["weight"]))


def test_skip_mutable_buffer_refuses_all_claims():
    partitioner = Claims(holder())
    edge = compile_({"forward": fill}, partitioner, skip_mutable_buffer=[partitioner])
    assert reason(edge) == "skip_mutable_buffer is set"
    assert len(partitioner.asked) == 1 and delegates(edge.exported_program())


def test_a_refused_partitioner_is_asked_again_and_may_leave_other_nodes():
    class OnlyInside(CapabilityPartitioner):
        """Supports additions only if it holds the cache."""

        def partition(self, program):
            refused = any("refused_claim" in node.meta for node in program.graph.nodes)
            self.unsupported_reasons = unsupported(aten.sin.default, *([aten.add.Tensor] if refused else []))
            return super().partition(program)

    partitioner = OnlyInside("Acme", None, can_hold=lambda buffer: True)
    edge = compile_({"prefill": fill, "decode": sine_of_cache}, partitioner)
    outside = {row.operator for row in edge.report().left_outside if row.method == "prefill"}
    assert outside == {"aten.add.Tensor"}
    for method in ("prefill", "decode"):
        assert not any("refused_claim" in node.meta for node in edge.exported_program(method).graph.nodes)


def test_buffers_of_a_partition_that_cannot_be_compiled_come_back_in_all_methods():
    compiled = []

    def fails_with_state_in_decode(backend_id, program, specs):
        view = PartitionView(program)
        if view.buffers and not view.buffers[0].is_written:
            raise ValueError("no more memory for state")
        compiled.append(len(view.buffers))
        return compiles(backend_id, program, specs)

    with pytest.warns(FallbackWarning) as caught:
        edge = compile_({"prefill": fill, "decode": read}, holder(), preprocess=fails_with_state_in_decode)
    (text,) = [str(warning.message) for warning in caught if warning.category is FallbackWarning]
    assert text.startswith("Acme failed to compile a partition of 1 operator that holds cache, at aten.mul.Tensor")
    assert "ValueError: no more memory for state; these mutable buffers stay outside of the backend" in text
    assert reason(edge) == "the backend failed with it inside: ValueError: no more memory for state"
    assert compiled == [1, 0, 0], "prefill is compiled again without the cache"
    model = Cached(fill).eval()
    for method in ("prefill", "decode"):
        assert [buffer.name for buffer in mutable_buffers(edge.exported_program(method))] == ["cache"]
    torch.testing.assert_close(run(edge, "prefill", X), model(X))


def test_a_partition_that_fails_with_and_without_its_buffer_runs_elsewhere():
    def fails(backend_id, program, specs):
        raise ValueError("no license")

    with pytest.warns(FallbackWarning) as caught:
        edge = compile_({"forward": fill}, holder(), preprocess=fails)
    assert [warning.category for warning in caught].count(FallbackWarning) == 2
    assert not delegates(edge.exported_program())
    assert [failure.operators for failure in edge.report().failures] == [0, 4]
    model = Cached(fill).eval()
    torch.testing.assert_close(run(edge, "forward", X), model(X))


def test_a_required_backend_that_fails_with_a_buffer_inside_is_an_error():
    def fails(backend_id, program, specs):
        raise ValueError("no license")

    partitioner = holder()
    with pytest.raises(CompileError, match="^Acme failed to compile a partition of 4 operators that holds cache, at"):
        compile_({"forward": fill}, partitioner, preprocess=fails, required=[partitioner])


def test_a_table_of_operators_claims_the_buffers_that_its_backend_can_hold():
    table = OperatorTable(
        [OperatorRow(aten.mul.Tensor, (torch.float32,)), OperatorRow(aten.add.Tensor, (torch.float32,))]
    )

    def update(self, x):
        self.cache.copy_(self.cache * x + self.cache)
        return x * 1

    for dtype, holder_of_cache in ((torch.float32, "Acme"), (torch.float64, "edgecore")):
        partitioner = table.partitioner("Acme", can_hold=lambda buffer, dtype=dtype: buffer.initial.dtype == dtype)
        edge = compile_({"forward": update}, partitioner, inputs=(X[0],))
        assert [row.where for row in edge.report().buffers] == [holder_of_cache]


def test_an_update_in_place_stays_outside_if_the_backend_does_not_hold_the_buffer():
    def update(self, x):
        self.cache.mul_(2)
        return self.cache + x * 3

    for can_hold, expected in ((True, ""), (False, "updates the buffer cache, which the delegate does not keep")):
        partitioner = CapabilityPartitioner(
            "Acme",
            unsupported(),
            can_hold=lambda buffer, answer=can_hold: answer,
            updates_in_place=lambda node: node.target is aten.mul.Scalar,
        )
        edge = compile_({"forward": update}, partitioner, inputs=(X[0],))
        outside = {row.operator: row.reasons[0][1] for row in edge.report().rows if row.where == "edgecore"}
        assert outside == ({"aten.mul.Scalar": expected} if expected else {})


def test_no_warning_is_given_where_claims_are_granted():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compile_({"forward": fill}, holder())


def test_the_next_backend_may_claim_what_the_first_left():
    first = CapabilityPartitioner("First", lambda program: lambda node: "not supported")
    edge = compile_({"forward": fill}, first, holder("Second"))
    assert holders(edge) == {"cache": ("Second", ("forward",))}


class Compiler:
    """A backend that can hold all buffers, as `edgecore.compile` finds it."""

    class Options:
        model_fields = ()

    def partitioner(self, options, *, runtime):
        return holder()


def test_an_option_of_every_backend_keeps_its_state_outside(monkeypatch):
    monkeypatch.setattr(chosen_backends.registry, "find_by_name", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr(chosen_backends, "compiler_of", lambda info: Compiler())
    monkeypatch.setattr("edgecore.pipeline.lowering.lower_programs.preprocess", compiles)
    inside = edgecore.compile(Cached(fill).eval(), (X,), backends=["acme"])
    outside = edgecore.compile(Cached(fill).eval(), (X,), backends=[edgecore.Backend("acme", skip_mutable_buffer=True)])
    assert [row.where for row in inside.report().buffers] == ["Acme"]
    assert [row.where for row in outside.report().buffers] == ["edgecore"]
    assert outside.report().delegates == inside.report().delegates == {"Acme": 1}
