"""A short run of the fuzzer of small models, the same at every time, and what it must be able to see."""

import copy
from collections import Counter

import pytest
import torch
from fuzz.check import Finding
from fuzz.models.check import KERNELS, Target, check, smallest, targets
from fuzz.models.draw import Model, draw
from fuzz.models.run import installed_backends, run_seed

FAST = {"xnnpack", "openvino", "vulkan", "ethosu"}
"""Backends that compile and run a small model in a fraction of a second; the others run in `make fuzz-graphs`."""


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in (1, 5) else pytest.mark.slow) for seed in range(1, 13)]
)
def test_random_models_equal_eager_on_every_fast_backend(seed):
    counts = Counter()
    installed = [name for name in installed_backends() if name in FAST]
    findings = run_seed(seed, installed, counts, lambda text: None)
    assert not findings, "\n".join(findings)
    assert counts["ran"] > counts["skipped"]


def written(*statements, results=("v0",)):
    return Model(7, (2, 8), members=("self.l0 = torch.nn.Linear(8, 8)",), statements=statements, results=results)


def test_a_seed_has_one_model_and_the_model_prints_as_code():
    assert draw(5) == draw(5) and str(draw(5)) != str(draw(6))
    names = {"torch": torch}
    exec(str(draw(5)), names)
    assert issubclass(names["Model"], torch.nn.Module)


def test_a_target_is_a_backend_with_a_recipe_or_without():
    pytest.importorskip("edgecore_xnnpack")
    chosen = targets(3, ["xnnpack", KERNELS])
    assert [str(target) for target in chosen[:2]] == ["no backend, floating point", "xnnpack, floating point"]
    assert len(chosen) == 6


def test_a_wrong_number_is_a_finding_with_the_smallest_model(monkeypatch):
    model = written("v0 = self.l0(x)", "v1 = torch.relu(v0)", "v1.mul_(2)", results=("v1", "v0"))
    make = Model.make

    def off_by_one_of_relu(self, last=None):
        module = make(self, last)
        if "torch.relu" in str(self):
            module.l0.register_forward_hook(
                lambda layer, x, y: y + torch.is_grad_enabled()
            )  # only torch.export sees it
        return module

    monkeypatch.setattr(Model, "make", off_by_one_of_relu)
    small, finding = smallest(model, Target(None))
    assert "differs from eager by 1" in str(finding)
    assert len(small.statements) == 2 and small.results in (("v1",), ("v0",))


@pytest.mark.parametrize("target", [Target(None), Target(KERNELS, "int8")], ids=str)
def test_a_model_that_writes_its_input_has_its_new_content_as_first_result(target):
    assert check(written("v0 = self.l0(x)", "v1 = x.transpose(1, 0)", "v1[0].add_(v1[1])"), target)


def test_a_changed_module_is_a_finding(monkeypatch):
    monkeypatch.setattr("fuzz.models.check._compile", lambda module, *_: module.l0.bias.data.add_(1))
    with pytest.raises(Finding, match=r"compile changed l0.bias of the user's module"):
        check(written("v0 = self.l0(x)"), Target(None))


def test_a_write_that_quantization_loses_is_a_finding_though_runtime_and_quantized_eager_agree(monkeypatch):
    pytest.importorskip("edgecore_xnnpack")
    model = written("v0 = self.l0(x)", "v0[:, 0::2].mul_(-3)")
    lost = written("v0 = self.l0(x)").make()
    from fuzz.models import check as module

    compiled = module._compile
    monkeypatch.setattr(module, "_compile", lambda made, inputs, target: compiled(copy.deepcopy(lost), inputs, target))
    with pytest.raises(Finding, match="differs from the user's model"):
        check(model, Target("xnnpack", "int8"))
