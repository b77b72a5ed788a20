"""A backend or a pass that raises: a sentence that names operator, source line and backend; the model compiles anyway."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import edgecore
from edgecore.errors import BackendBroken, CompileError, FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.partition import TAG, CapabilityPartitioner, PartitionDiagnostics, PartitionResult, to_backend
from edgecore.passes.base import ExportPass
from edgecore.passes.manager import PassManager
from edgecore.pipeline import DelegationReport, to_edge, to_edge_transform_and_lower
from edgecore.pipeline import compile as compiling
from edgecore.plugin import PreprocessResult

aten = torch.ops.aten


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.tanh(self.conv(x) * 2)


class Network(nn.Module):
    """Two convolutions, with a sine between them that `no_sin` leaves outside."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.relu(self.second(torch.sin(self.first(x))))


CALL_OF_CONV = f"module first.conv, {__file__}:{Layer.forward.__code__.co_firstlineno + 1}"
INPUT = (torch.linspace(-1, 1, 75).reshape(1, 3, 5, 5),)


def exported():
    torch.manual_seed(0)
    return torch.export.export(Network().eval(), INPUT)


def edge():
    return to_edge(exported()).exported_program()


def no_sin(program):
    return lambda node: "sin is not supported" if node.target is aten.sin.default else None


def compiles(backend_id, program, specs):
    return PreprocessResult(b"blob"), ("fake", "1")


def fails_at_convolutions(backend_id, program, specs):
    for node in program.graph.nodes:
        if node.target is aten.convolution.default:
            [].pop(len(program.graph.nodes))
    return compiles(backend_id, program, specs)


def fails_at_tanh(backend_id, program, specs):
    if any(node.target is aten.tanh.default for node in program.graph.nodes):
        raise ValueError("no license")
    return compiles(backend_id, program, specs)


def picture(program):
    """All that a backend must not change."""
    nodes = [(node.name, node.op, node.target, str(node.args), set(node.meta)) for node in program.graph.nodes]
    return nodes, {name: tensor.clone() for name, tensor in program.state_dict.items()}


def assert_unchanged(program, before):
    nodes, weights = picture(program)
    assert nodes == before[0]
    assert weights.keys() == before[1].keys()
    assert all(torch.equal(weights[name], before[1][name]) for name in weights)
    torch.testing.assert_close(program.module(check_guards=False)(*INPUT), exported().module()(*INPUT))


def test_a_failed_partition_stays_outside_with_a_warning_and_a_line_in_the_report():
    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning) as caught:
        to_backend(program, CapabilityPartitioner("Fake", no_sin), fails_at_tanh, diagnostics)
    assert len(delegates(program)) == 1
    (warning,) = caught
    assert "Fake failed to compile a partition of 3 operators, at aten.convolution.default" in str(warning.message)
    assert "ValueError: no license" in str(warning.message) and CALL_OF_CONV in str(warning.message)
    assert warning.filename == __file__
    report = DelegationReport.of({"forward": program}, {"forward": diagnostics})
    assert [failure.operators for failure in report.failures] == [3]
    assert "failures of backends: 1, for which 3 operators run elsewhere" in str(report)
    reasons = {row.operator: row.reasons for row in report.left_outside}
    assert reasons["aten.tanh.default"] == (("Fake", "the backend failed: ValueError: no license"),)
    assert reasons["aten.sin.default"] == (("Fake", "sin is not supported"),)


def test_the_program_is_unchanged_when_every_partition_failed():
    def half_way(backend_id, program, specs):
        for node in program.graph.nodes:
            if node.op == "call_function":
                node.meta["mine"], node.target = True, aten.neg.default
                raise ValueError("half-way")

    program = edge()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="half-way"):
        to_backend(program, CapabilityPartitioner("Fake", no_sin), half_way, PartitionDiagnostics())
    assert_unchanged(program, before)


def test_the_node_in_hand_is_named():
    with pytest.warns(FallbackWarning) as caught:
        to_backend(edge(), CapabilityPartitioner("Fake", no_sin), fails_at_convolutions, PartitionDiagnostics())
    text = str(caught[0].message)
    assert (
        f"3 operators, at aten.convolution.default (node convolution_default, {CALL_OF_CONV}): IndexError: pop from empty list"
        in text
    )


def test_the_next_backend_takes_what_one_failed_on():
    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning):
        to_backend(program, CapabilityPartitioner("First", no_sin), fails_at_tanh, diagnostics)
    to_backend(program, CapabilityPartitioner("Second", no_sin), compiles, diagnostics)
    assert [module.backend_id for _, module in delegates(program)] == ["Second", "First"]


@pytest.mark.parametrize("raised", [ValueError("bad"), CompileError("a sentence"), AssertionError()])
def test_a_required_backend_makes_a_failure_an_error(raised):
    def fails(backend_id, program, specs):
        raise raised

    with pytest.raises(
        CompileError, match=r"^Fake failed to compile a partition of 3 operators, at aten.conv"
    ) as error:
        to_backend(edge(), CapabilityPartitioner("Fake", no_sin), fails, PartitionDiagnostics(), required=True)
    assert error.value.__cause__ is raised


def test_a_backend_that_is_not_there_is_an_error_of_its_own():
    def broken(backend_id, program, specs):
        raise BackendBroken("the package cannot be imported")

    with pytest.raises(BackendBroken, match="cannot be imported"):
        to_backend(edge(), CapabilityPartitioner("Fake", no_sin), broken, PartitionDiagnostics())


def test_preprocess_must_give_a_result():
    program = edge()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="preprocess gave a NoneType, not a PreprocessResult"):
        to_backend(program, CapabilityPartitioner("Fake", no_sin), lambda *_: (None, ("", "")), PartitionDiagnostics())
    assert_unchanged(program, before)


def test_a_check_that_raises_leaves_its_operator_only():
    def check(program):
        def of_node(node):
            if node.target is aten.convolution.default:
                raise KeyError("padding")

        return of_node

    program, diagnostics = edge(), PartitionDiagnostics()
    with pytest.warns(FallbackWarning, match="Fake failed to examine 2 operators, at aten.conv.*KeyError") as caught:
        to_backend(program, CapabilityPartitioner("Fake", check), compiles, diagnostics)
    assert len(caught) == 1
    left = {row.operator for row in DelegationReport.of({"forward": program}, {"forward": diagnostics}).left_outside}
    assert left == {"aten.convolution.default"}


class Raising:
    """A partitioner that tags the first node and raises, at one of its two questions."""

    def __init__(self, *, whole=False, edits=False):
        self.whole, self.edits = whole, edits

    def ops_to_not_decompose(self, program):
        if self.whole:
            raise RuntimeError("cannot say")
        return (), None

    def partition(self, program):
        if self.whole:
            return PartitionResult(program, {})
        node = next(node for node in program.graph.nodes if node.op == "call_function")
        node.meta[TAG] = "part"
        if self.edits:
            node.target = aten.neg.default
        raise RuntimeError("out of memory")


def test_a_partitioner_that_raises_leaves_everything():
    program, diagnostics = edge(), PartitionDiagnostics()
    before = picture(program)
    with pytest.warns(FallbackWarning, match="Raising failed to choose operators, at .*: RuntimeError: out of memory"):
        to_backend(program, Raising(), compiles, diagnostics)
    assert_unchanged(program, before)
    assert diagnostics.failures[0].operators == 6
    with pytest.raises(CompileError, match="Raising failed to choose operators"):
        to_backend(program, Raising(), compiles, diagnostics, required=True)


def test_a_partitioner_must_give_a_result():
    class Silent(Raising):
        def partition(self, program):
            pass

    program = edge()
    before = picture(program)
    with pytest.warns(
        FallbackWarning, match="Silent failed to choose operators.*partition gave a NoneType, not a Parti"
    ):
        to_backend(program, Silent(), compiles, PartitionDiagnostics())
    assert_unchanged(program, before)


def test_a_partitioner_that_changes_the_program_and_raises_is_an_error():
    with pytest.raises(CompileError, match="Raising changed the program") as error:
        to_backend(edge(), Raising(edits=True), compiles, PartitionDiagnostics())
    assert str(error.value.__cause__) == "out of memory"


def test_a_question_about_whole_operators_that_raises_counts_as_no():
    def keep(node):
        raise ValueError("no such row")

    partitioner = CapabilityPartitioner(
        "Fake", lambda _: lambda node: "no", ops_to_not_decompose=[aten.conv2d.default], preserve=keep
    )
    with pytest.warns(FallbackWarning, match="to say whether it wants aten.conv2d.default whole, at .*no such row"):
        report = to_edge_transform_and_lower(exported(), partitioner=[partitioner]).report()
    assert len(report.failures) == 1
    with pytest.warns(FallbackWarning, match="Raising failed to say which operators it wants whole: RuntimeError"):
        to_edge_transform_and_lower(exported(), partitioner=[Raising(whole=True)])


class Compiler:
    """A backend that cannot compile anything."""

    class Options:
        model_fields = ()

    def partitioner(self, options, *, runtime):
        return CapabilityPartitioner("FakeBackend", no_sin)


def test_compile_survives_a_failing_backend_and_says_so(monkeypatch):
    monkeypatch.setattr(compiling.registry, "find_by_name", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr(compiling, "compiler_of", lambda info: Compiler())
    monkeypatch.setattr("edgecore.pipeline.lower.preprocess", fails_at_convolutions)
    torch.manual_seed(0)
    model = Network().eval()
    with pytest.warns(FallbackWarning) as caught:
        program = edgecore.compile(model, INPUT, backends=["fake"])
    assert {warning.filename for warning in caught} == {__file__}
    assert len(program.report().failures) == 2 and not program.report().delegates
    torch.testing.assert_close(edgecore.load(program.buffer).forward(*INPUT), model(*INPUT))
    with pytest.raises(CompileError, match="FakeBackend failed to compile a partition"):
        edgecore.compile(model, INPUT, backends=[edgecore.Backend("fake", required=True)])


class Stumbles(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return super().call_operator(op, args[: 7 if op is aten.convolution.default else None], kwargs, meta)


def drop_everything(program):
    raise LookupError("nothing\nto drop")


def test_a_pass_that_raises_is_named_with_the_node():
    with pytest.raises(CompileError, match="^the pass Stumbles failed at aten.convolution.default ") as error:
        PassManager([Stumbles()])(edge())
    assert CALL_OF_CONV in str(error.value)
    with pytest.raises(CompileError, match="^the pass drop_everything failed: LookupError: nothing; ") as error:
        to_edge_transform_and_lower(exported(), transform_passes=[drop_everything])
    assert isinstance(error.value.__cause__, LookupError)


def test_an_error_of_edgecore_in_a_pass_stays_as_it_is():
    def refuse(program):
        raise CompileError("not this one")

    with pytest.raises(CompileError, match="^not this one$"):
        PassManager([refuse])(edge())


def test_source_lines_are_those_of_the_model_and_not_of_torch(tmp_path):
    program = edge()
    to_backend(program, CapabilityPartitioner("Fake", no_sin), compiles, PartitionDiagnostics())
    report = DelegationReport.of({"forward": program}, {})
    rows = {row.node: row for row in report.rows}
    assert rows["convolution_default"].place == f"{CALL_OF_CONV.partition(', ')[2]} in first.conv"
    assert all(row.source.startswith(__file__) for row in report.rows)
    assert rows["convolution_default"].operator == "aten.convolution.default"
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert (
        "call_delegate" not in page
        and "<code>convolution_default_1</code>" in page
        and "<code>first.conv</code>" in page
    )


def test_the_source_of_a_layer_that_only_torch_calls_is_its_module():
    program = to_edge(
        torch.export.export(nn.Sequential(nn.Linear(2, 2)).eval(), (torch.ones(1, 2),))
    ).exported_program()
    (row,) = DelegationReport.of({"forward": program}, {}).rows
    assert (row.source, row.module) == ("", "0")


def test_nothing_is_warned_about_where_nothing_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_backend(edge(), CapabilityPartitioner("Fake", no_sin), compiles, PartitionDiagnostics())
