"""Mutable buffers that a backend claims: they are inside of its delegates in all methods, or in none."""

import copy
import warnings
from types import SimpleNamespace

import pytest
import torch
from fake_backends import compiles
from torch import nn
from torch.export.graph_signature import InputKind, OutputKind

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError, FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.ir.state import mutable_buffers
from edgecore.memory import MemoryPlanningPass
from edgecore.partition import CapabilityPartitioner, PartitionView
from edgecore.pipeline import ExecutorchBackendConfig
from edgecore.pipeline import compile as compiling
from edgecore.pipeline.lower import lower
from edgecore.plugin import NamedBlob, PreprocessResult

aten = torch.ops.aten
X = torch.arange(8.0).reshape(2, 4)


class Cached(nn.Module):
    """A module with a cache; the methods are functions of the module and an input."""

    def __init__(self, function, cache=None):
        super().__init__()
        self.function = function
        self.register_buffer("cache", torch.arange(4.0) if cache is None else cache)

    def forward(self, x):
        return self.function(self, x)


def fill(self, x):
    """Write the cache, and read the new content."""
    self.cache.copy_(self.cache * 2 + x[0])
    return self.cache + x


def read(self, x):
    return x * self.cache


def read_twice(self, x):
    return torch.sin(x * self.cache) - self.cache


def write(self, x):
    self.cache.copy_(x[0] * 2)
    return x + 1


def count(self, x):
    """Change the cache, and return nothing that depends on it."""
    self.cache.add_(1)
    return torch.sin(x)


def assign_input(self, x):
    self.cache.copy_(x)
    return x * self.cache


def sine_of_cache(self, x):
    return torch.sin(self.cache) + x


def written_elsewhere(self, x):
    self.cache.copy_(torch.sin(self.cache * x[0]))
    return x + 1


def unsupported(*targets):
    return lambda program: lambda node: "not supported" if node.target in targets else None


def holder(name="Acme", *, outside=(aten.sin.default,), can_hold=lambda buffer: True):
    """Make a partitioner that supports all but the operators `outside`, and claims what it can."""
    return CapabilityPartitioner(name, unsupported(*outside), can_hold=can_hold)


def compile_(methods, *partitioners, inputs=(X,), **options):
    """Lower methods, which are functions or modules, with the given partitioners."""
    modules = {name: method if isinstance(method, nn.Module) else Cached(method) for name, method in methods.items()}
    exported = {name: torch.export.export(module.eval(), inputs) for name, module in modules.items()}
    return lower(exported, partitioner=list(partitioners), **options)


@pytest.fixture(autouse=True)
def fake_compiler(monkeypatch):
    """Compile partitions with a fake backend; `use(function)` replaces it."""

    def use(preprocess):
        monkeypatch.setattr("edgecore.pipeline.lower.preprocess", preprocess)

    use(compiles)
    monkeypatch.setattr("edgecore.pipeline.report.report_lines", lambda backend_id, results: [])
    return use


def holders(edge):
    return {row.name: (row.where, row.methods) for row in edge.report().buffers}


def reason(edge):
    """Return the only reason why the cache is outside."""
    (row,) = edge.report().buffers
    assert row.where == "edgecore"
    ((_, sentence),) = row.reasons
    return sentence


def run(edge, method, *inputs):
    return edge.exported_program(method).module(check_guards=False)(*inputs)


def test_a_claimed_buffer_leaves_the_program_and_enters_the_partition():
    edge = compile_({"forward": fill}, holder())
    program = edge.exported_program()
    assert not mutable_buffers(program) and "cache" not in program.state_dict
    assert [spec.kind for spec in program.graph_signature.input_specs] == [InputKind.USER_INPUT]
    assert [spec.kind for spec in program.graph_signature.output_specs] == [OutputKind.USER_OUTPUT]
    ((call, module),) = delegates(program)
    partition = module.original_module
    assert len(call.args) == 2 and len(call.meta["val"]) == 1
    assert partition.graph_signature.inputs_to_buffers == {"b_cache": "cache"}
    assert list(partition.graph_signature.buffers_to_mutate.values()) == ["cache"]
    torch.testing.assert_close(partition.state_dict["cache"], torch.arange(4.0))
    view = PartitionView(partition)
    (buffer,) = view.buffers
    assert (buffer.name, buffer.nbytes, buffer.is_written) == ("cache", 16, True)
    assert buffer.node.meta["val"].shape == (4,) and buffer.update.target is aten.add.Tensor
    assert [node.name for node in view.inputs] == ["x"] and len(view.outputs) == 1 and not view.constants
    assert holders(edge) == {"cache": ("Acme", ("forward",))}
    assert "1 mutable buffer in Acme (cache), 16 bytes" in str(edge.report())


def test_a_delegate_that_holds_a_buffer_computes_what_eager_computes():
    model = Cached(fill).eval()
    eager = copy.deepcopy(model)
    edge = compile_({"forward": model}, holder())
    for _ in range(3):
        torch.testing.assert_close(run(edge, "forward", X), eager(X))


def test_prefill_and_decode_share_a_claimed_buffer():
    edge = compile_({"prefill": fill, "decode": read}, holder())
    assert holders(edge) == {"cache": ("Acme", ("prefill", "decode"))}
    ((_, module),) = delegates(edge.exported_program("decode"))
    (buffer,) = module.held_buffers
    assert buffer.update is buffer.node and not module.writes_state, "decode only reads, and the buffer is no constant"
    assert module.original_module.graph_signature.buffers_to_mutate


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


class Claims:
    """A partitioner that claims the same buffers whatever edgecore refused."""

    def __init__(self, base, names=("cache",)):
        self.base, self.names = base, names
        self.asked = []

    def ops_to_not_decompose(self, program):
        return self.base.ops_to_not_decompose(program)

    def partition(self, program):
        result = self.base.partition(program)
        result.claimed_buffers = self.names
        self.asked.append(program)
        return result


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
    exported = {name: torch.export.export(Cached(method), (X,)) for name, method in [("a", fill), ("b", read)]}
    edge = lower(exported, partitioner={"a": [holder()], "b": [holder(can_hold=None)]})
    assert reason(edge) == "method b uses it and does not claim it"


def test_a_method_without_a_partitioner_keeps_the_buffer_outside():
    exported = {name: torch.export.export(Cached(method), (X,)) for name, method in [("a", fill), ("b", read)]}
    edge = lower(exported, partitioner={"a": [holder()]})
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


def test_a_buffer_that_is_only_written_is_claimed():
    edge = compile_({"forward": write}, holder())
    ((_, module),) = delegates(edge.exported_program())
    (buffer,) = module.held_buffers
    assert buffer.is_written and not [user for user in buffer.node.users if user.op != "output"]


def test_a_delegate_whose_only_result_is_state_stays_in_the_program():
    model = Cached(count)
    edge = compile_({"forward": model}, holder())
    ((call, module),) = delegates(edge.exported_program())
    assert module.writes_state and call.meta["val"] == ()
    edge = edge.transform([])
    assert len(delegates(edge.exported_program())) == 1
    for step in (1, 2):
        run(edge, "forward", X)
        torch.testing.assert_close(module.original_module.state_dict["cache"], torch.arange(4.0) + step)


def test_a_dead_buffer_of_one_method_leaves_it_with_the_claim_of_another():
    def dead(self, x):
        return x + 0 * self.cache.shape[0]

    edge = compile_({"prefill": fill, "decode": dead}, holder())
    assert holders(edge) == {"cache": ("Acme", ("prefill",))}
    assert not edge.exported_program("decode").graph_signature.buffers


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


def test_buffers_of_a_partition_that_cannot_be_compiled_come_back_in_all_methods(fake_compiler):
    compiled = []

    def fails_with_state_in_decode(backend_id, program, specs):
        view = PartitionView(program)
        if view.buffers and not view.buffers[0].is_written:
            raise ValueError("no more memory for state")
        compiled.append(len(view.buffers))
        return compiles(backend_id, program, specs)

    fake_compiler(fails_with_state_in_decode)
    with pytest.warns(FallbackWarning) as caught:
        edge = compile_({"prefill": fill, "decode": read}, holder())
    (text,) = [str(warning.message) for warning in caught if warning.category is FallbackWarning]
    assert text.startswith("Acme failed to compile a partition of 1 operator that holds cache, at aten.mul.Tensor")
    assert "ValueError: no more memory for state; these mutable buffers stay outside of the backend" in text
    assert reason(edge) == "the backend failed with it inside: ValueError: no more memory for state"
    assert compiled == [1, 0, 0], "prefill is compiled again without the cache"
    model = Cached(fill).eval()
    for method in ("prefill", "decode"):
        assert [buffer.name for buffer in mutable_buffers(edge.exported_program(method))] == ["cache"]
    torch.testing.assert_close(run(edge, "prefill", X), model(X))


def test_a_partition_that_fails_with_and_without_its_buffer_runs_elsewhere(fake_compiler):
    def fails(backend_id, program, specs):
        raise ValueError("no license")

    fake_compiler(fails)
    with pytest.warns(FallbackWarning) as caught:
        edge = compile_({"forward": fill}, holder())
    assert [warning.category for warning in caught].count(FallbackWarning) == 2
    assert not delegates(edge.exported_program())
    assert [failure.operators for failure in edge.report().failures] == [0, 4]
    model = Cached(fill).eval()
    torch.testing.assert_close(run(edge, "forward", X), model(X))


def test_a_required_backend_that_fails_with_a_buffer_inside_is_an_error(fake_compiler):
    def fails(backend_id, program, specs):
        raise ValueError("no license")

    fake_compiler(fails)
    partitioner = holder()
    with pytest.raises(CompileError, match="^Acme failed to compile a partition of 4 operators that holds cache, at"):
        compile_({"forward": fill}, partitioner, required=[partitioner])


def test_no_warning_is_given_where_claims_are_granted():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compile_({"forward": fill}, holder())


def test_the_next_backend_may_claim_what_the_first_left():
    first = CapabilityPartitioner("First", lambda program: lambda node: "not supported")
    edge = compile_({"forward": fill}, first, holder("Second"))
    assert holders(edge) == {"cache": ("Second", ("forward",))}


def test_the_file_has_neither_the_tensor_nor_a_copy_of_a_held_buffer(fake_compiler):
    program = compile_({"forward": fill}, holder()).to_executorch()
    (plan,) = program.pte.program.execution_plan
    assert len(plan.chains[0].instructions) == 1 and not program.pte.mutable
    assert not [value for value in plan.values if getattr(value.val, "extra_tensor_info", None)]
    outside = compile_({"forward": fill}).to_executorch()
    assert outside.pte.mutable


def test_methods_that_share_state_share_what_a_backend_holds():
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True))
    program = compile_({"prefill": fill, "decode": read}, holder()).to_executorch(config)
    assert fmt.get_meta(program.pte).shared_state == ["cache"]
    program = compile_({"prefill": fill, "decode": read}, holder()).to_executorch()
    assert fmt.get_meta(program.pte).shared_state == []


def test_initial_values_under_the_qualified_name_go_to_the_file_that_the_user_chose(fake_compiler):
    def stores_initial_values(backend_id, program, specs):
        named = {buffer.name: NamedBlob(buffer.initial.numpy().tobytes()) for buffer in PartitionView(program).buffers}
        return PreprocessResult(b"blob", {**named, "weights": NamedBlob(b"1234")}), ("fake", "1")

    fake_compiler(stores_initial_values)
    edge = compile_({"forward": fill}, holder())
    config = ExecutorchBackendConfig(external_constants={"cac*": "state"})
    program = edge.to_executorch(config)
    entry = program.data["state"].entries["cache"]
    assert bytes(entry.data) == torch.arange(4.0).numpy().tobytes()
    assert list(program.data) == ["state"] and "weights" in program.pte.named_data
    program = compile_({"forward": fill}, holder()).to_executorch()
    assert not program.data and "cache" in program.pte.named_data


def test_the_page_of_the_report_lists_the_buffers_and_their_holders(tmp_path):
    edge = compile_({"prefill": fill, "decode": sine_of_cache}, holder())
    edge.report().to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Mutable buffers</h2>" in page and "uses it outside of the backend" in page
    text = str(edge.report())
    assert "1 mutable buffer in edgecore (cache), 16 bytes: Acme: in method decode aten.sin.default" in text


class Compiler:
    """A backend that can hold all buffers, as `edgecore.compile` finds it."""

    class Options:
        model_fields = ()

    def partitioner(self, options, *, runtime):
        return holder()


def test_an_option_of_every_backend_keeps_its_state_outside(monkeypatch):
    monkeypatch.setattr(compiling.registry, "find_by_name", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr(compiling, "compiler_of", lambda info: Compiler())
    inside = edgecore.compile(Cached(fill).eval(), (X,), backends=["acme"])
    outside = edgecore.compile(Cached(fill).eval(), (X,), backends=[edgecore.Backend("acme", skip_mutable_buffer=True)])
    assert [row.where for row in inside.report().buffers] == ["Acme"]
    assert [row.where for row in outside.report().buffers] == ["edgecore"]
    assert outside.report().delegates == inside.report().delegates == {"Acme": 1}
