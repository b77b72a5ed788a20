"""Programs with test cases: what they say when all is well and when it is not, here and on executorch's runtime."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

import edgecore
from edgecore import BundledProgram, MethodTestCase, MethodTestSuite
from edgecore import format as fmt
from edgecore.errors import CompileError, ExecutionError
from edgecore.pipeline import serialize_from_bundled_program_to_flatbuffer

needs_peer = pytest.mark.skipif(find_spec("executorch") is None, reason="needs executorch, the peer")


class Net(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) * 2.0 + y, x.sum(1)


X = torch.linspace(-1, 1, 12).reshape(3, 4)
INPUTS = (X, torch.full((3, 4), 0.25))


def cases(wrong=0.0):
    outputs = [output.clone() for output in Net()(*INPUTS)]
    outputs[0][1, 2] += wrong
    other = (X * 2, X)
    return [MethodTestCase(INPUTS, outputs), MethodTestCase(other, Net()(*other)), MethodTestCase(INPUTS)]


@pytest.fixture(scope="module")
def program():
    return edgecore.compile(Net().eval(), INPUTS)


def bundle(program, given, method="forward"):
    return BundledProgram(program, [MethodTestSuite(method, given)])


def test_a_bundle_of_right_cases_passes(program, tmp_path):
    path = tmp_path / "net.bpte"
    bundled = bundle(program, cases())
    bundled.save(path)
    assert path.read_bytes() == serialize_from_bundled_program_to_flatbuffer(bundled)
    report = edgecore.verify_bundled(path)
    assert report.passed, str(report)
    assert [(r.case, r.output, r.passed) for r in report.results] == [
        (0, 0, True), (0, 1, True), (1, 0, True), (1, 1, True), (2, 0, None),
    ]  # fmt: skip
    assert "4 outputs passed, 0 failed, 1 cases have nothing to compare with" in str(report)
    assert edgecore.verify_bundled(path.open("rb")).passed


def test_a_wrong_element_is_named(program):
    report = edgecore.verify_bundled(bundle(program, cases(wrong=0.5)).buffer)
    failed = [result for result in report.results if result.passed is False]
    assert not report.passed
    assert [(r.method, r.case, r.output) for r in failed] == [("forward", 0, 0)]
    assert failed[0].max_abs == pytest.approx(0.5)
    assert "1 of 12 elements are wrong, max abs error 0.5" in failed[0].problem
    assert "the worst is [1, 2]:" in failed[0].problem
    assert edgecore.verify_bundled(bundle(program, cases(wrong=0.5)).buffer, atol=0.6).passed


def test_a_case_that_cannot_run_failed_and_the_others_run(program):
    bpte = fmt.read_bpte(bundle(program, cases()).buffer)
    first = bpte.method_test_suites[0].test_cases[0]
    first.inputs.pop()
    bpte.method_test_suites.append(fmt.BundledMethodTestSuite("gone", [first]))
    report = edgecore.verify_bundled(fmt.write_bpte(bpte))
    problems = {(r.method, r.case): r.problem for r in report.results if r.passed is False}
    assert set(problems) == {("forward", 0), ("gone", 0)}
    assert "2" in problems["forward", 0]
    assert "no such method; it has: forward" in problems["gone", 0]
    assert sum(result.passed is True for result in report.results) == 2


def test_a_bundle_without_a_case_to_run_is_an_error(program):
    with pytest.raises(ExecutionError, match="no test case to run; the methods with test cases are: forward"):
        edgecore.verify_bundled(bundle(program, cases()).buffer, method="backward")


REFUSED = {
    "method": (
        "backward",
        [MethodTestCase(INPUTS)],
        "test cases of 'backward': the program has no such method; it has: forward",
    ),
    "count": ("forward", [MethodTestCase((X,))], "test case 0 of 'forward': 1 inputs, but the method has 2"),
    "dtype": ("forward", [MethodTestCase((X, X.double()))], "input 1: it is float64, but the method has float32"),
    "shape": ("forward", [MethodTestCase((X, X[:2]))], r"input 1: it has sizes \[2, 4\], but the method has \[3, 4\]"),
    "kind": ("forward", [MethodTestCase((X, 1.0))], "input 1: it is a Double, but the method has a Tensor"),
    "output": ("forward", [MethodTestCase(INPUTS, [X])], "1 expected outputs, but the method has 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_cases_that_do_not_fit_are_refused(program, what):
    method, given, message = REFUSED[what]
    with pytest.raises(CompileError, match=message):
        bundle(program, given, method)


def test_cases_with_numbers_nan_and_channels_last_pass():
    class Scaled(nn.Module):
        def forward(self, x, factor: int):
            return x / (x - 1.0) * factor, x.to(torch.bfloat16) * 3

    image = torch.rand(1, 3, 4, 5).to(memory_format=torch.channels_last)
    image[0, 0, 0, :2] = torch.tensor([1.0, float("nan")])
    program = edgecore.compile(Scaled().eval(), (image, 3))
    case = MethodTestCase((image, 3), Scaled()(image, 3))
    report = edgecore.verify_bundled(bundle(program, [case]).buffer)
    assert report.passed, str(report)


def test_a_case_with_a_bfloat16_input_passes():
    class Double(nn.Module):
        def forward(self, x):
            return x + x

    x = torch.randn(2, 3).bfloat16()
    program = edgecore.compile(Double().eval(), (x,))
    assert edgecore.verify_bundled(bundle(program, [MethodTestCase((x,), [x + x])]).buffer).passed


def test_a_bundle_is_made_from_a_file_instead_of_a_program(program, tmp_path):
    path = tmp_path / "net.pte"
    program.save(path)
    from_file = BundledProgram(None, [MethodTestSuite("forward", cases())], pte_file_path=path)
    assert edgecore.verify_bundled(from_file.buffer).passed
    with pytest.raises(CompileError, match="either executorch_program or pte_file_path"):
        BundledProgram(program, [], pte_file_path=path)


@needs_peer
def test_executorch_verifies_our_bundle():
    from executorch.extension.pybindings import portable_lib as peer

    program = edgecore.compile(Net().eval(), INPUTS, memory="static")  # the peer's checker gives no output buffers

    def check(wrong, index):
        buffer = bundle(program, cases(wrong)[:2]).buffer
        bundled = peer._load_bundled_program_from_buffer(buffer)
        bundled.verify_result_with_bundled_expected_output("forward", index, rtol=1e-5, atol=1e-5)

    check(0.0, 0)
    check(0.5, 1)
    with pytest.raises(RuntimeError, match="verification failed"):
        check(0.5, 0)


@needs_peer
def test_a_bundle_of_executorch_is_verified_here():
    from executorch.devtools import BundledProgram as TheirBundle
    from executorch.devtools.bundled_program.config import MethodTestCase as TheirCase
    from executorch.devtools.bundled_program.config import MethodTestSuite as TheirSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer as serialize_theirs,
    )
    from executorch.exir import to_edge

    theirs = to_edge(torch.export.export(Net().eval(), INPUTS)).to_executorch()
    outputs = list(Net()(*INPUTS))
    good = serialize_theirs(TheirBundle(theirs, [TheirSuite("forward", [TheirCase(list(INPUTS), outputs)])]))
    assert edgecore.verify_bundled(good).passed
    outputs[1] = outputs[1] + 1
    bad = serialize_theirs(TheirBundle(theirs, [TheirSuite("forward", [TheirCase(list(INPUTS), outputs)])]))
    assert [result.passed for result in edgecore.verify_bundled(bad).results] == [True, False]


def test_a_limit_of_instructions_ends_a_case(program):
    report = edgecore.verify_bundled(bundle(program, cases()).buffer, limits={"instructions": 1})
    assert not report.passed
    assert "the limit instructions" in str(report)
