"""Calibrated networks through both compilers and both runtimes: each file runs on either, with equal results.

`pytest tests/interop/test_zoo.py --full` takes every network of zoo.py; executorch's compiler and its kernels need
most of that time. Without the option a few small ones are taken.
"""

import copy
from pathlib import Path

import pytest
import torch
from peer import lower_with_executorch
from zoo import ALL, ZOO, make, other_inputs

import edgecore
from edgecore import format as fmt

executorch_runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")

TOLERANCE = 1e-5
"""Largest difference allowed, relative to the largest output."""

QUICK = ("bert_mini", "mobilenet_v3_small")
IMPRECISE = {"unet": 3e-5}
"""Networks for which executorch's own kernels (group norm) are 2e-5 from float64: their tolerance. Ours are held to the
tolerance."""


def difference(result, reference):
    return float((result - reference).abs().max() / reference.abs().max())


def rms(tensor):
    return float(tensor.pow(2).mean().sqrt())


def as_double(value):
    return value.double() if value.is_floating_point() else value


class Reference:
    """Eager's result, and how far a file's may be from it."""

    def __init__(self, model, given):
        with torch.no_grad():
            self.eager = model(*given)
            self.exact = copy.deepcopy(model).double()(*map(as_double, given))
        self.rounding = difference(self.eager, self.exact)

    @property
    def is_exact(self):
        """True if eager itself is within the tolerance of float64."""
        return self.rounding <= TOLERANCE

    def check(self, result):
        """Within the tolerance of eager. Where eager's own rounding exceeds it, the error against float64 is at most twice eager's.

        ResNet-50 and Inception are such cases: eager is 2e-5 from float64, so no other order of summation can be within
        1e-5 of eager. The errors are root mean squares: the max of a thousand rounding errors is a matter of luck.
        """
        if self.is_exact:
            assert difference(result, self.eager) <= TOLERANCE
        else:
            assert rms(result - self.exact) <= 2 * rms(self.eager - self.exact)


def executorch_method(path):
    return executorch_runtime.Runtime.get().load_program(str(path)).load_method("forward")


def check_on_both(path, references, executorch_error=None):
    """Runs the file here and on executorch, on every input. executorch's may have an error against float64 of its own."""
    here, there = edgecore.load(path).forward, executorch_method(path)
    for given, reference in references:
        ours = here(*given)
        assert isinstance(ours, torch.Tensor)
        reference.check(ours)
        (theirs,) = (tensor.clone() for tensor in there.execute(list(given)))
        if executorch_error is None:
            reference.check(theirs)
            assert difference(theirs, ours) <= TOLERANCE or not reference.is_exact
        else:
            assert difference(theirs, reference.exact) <= executorch_error


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in ALL])
def test_files_of_networks_run_on_both_runtimes_with_equal_results(name, backend, tmp_path: Path):
    model, inputs = make(name)
    exported = torch.export.export(model, inputs)
    references = [(given, Reference(model, given)) for given in (inputs, other_inputs(inputs))]
    program = edgecore.compile(exported, backends=[] if backend == "portable" else ["xnnpack"])
    assert fmt.verify(program.pte) == []
    program.save(tmp_path / "ours.pte")
    lower_with_executorch(exported, backend, tmp_path / "theirs.pte")
    for file in ("ours.pte", "theirs.pte"):
        check_on_both(tmp_path / file, references, IMPRECISE.get(name))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "mobilenet_v3_small" else pytest.mark.slow) for name in ZOO]
)
def test_a_network_of_the_zoo_is_one_delegate_of_xnnpack(name, tmp_path):
    model, inputs = make(name)
    program = edgecore.compile(model, inputs, backends=["xnnpack"])
    assert program.report().delegates == {"XnnpackBackend": 1}, str(program.report())
    assert program.report().left_outside == []
    program.save(tmp_path / "ours.pte")
    check_on_both(tmp_path / "ours.pte", [(given, Reference(model, given)) for given in (inputs, other_inputs(inputs))])


class Shifted(torch.nn.Module):
    """Its number is a tensor without dims, an argument of executorch's delegate."""

    def forward(self, x):
        return torch.relu(x + 0.5)


@pytest.mark.slow
def test_numbers_are_arguments_of_delegates_that_executorch_made(tmp_path):
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    lower_with_executorch(torch.export.export(Shifted().eval(), (x,)), "xnnpack", tmp_path / "theirs.pte")
    assert list(edgecore.load(tmp_path / "theirs.pte").forward.delegates) == ["XnnpackBackend"]
    check_on_both(tmp_path / "theirs.pte", [((x,), Reference(Shifted(), (x,)))])
