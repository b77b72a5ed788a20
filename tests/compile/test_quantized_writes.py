"""Quantized files of networks that write in place, with and without state, on the backends that this machine has."""

import importlib.util

import pytest
import torch
from written_networks import SAMPLES, Forms, Stateful

import edgecore
from edgecore.format import EDGECORE

CASES = {
    "xnnpack": "int8", "kernels": "int8", "openvino": "int8", "vulkan": "int8", "qnn": "int8", "ethosu": "int8",
}  # fmt: skip


def compiled(model, backend, recipe, samples):
    runs_kernels = backend == "kernels"
    return edgecore.compile(
        model, samples[0], backends=[] if runs_kernels else [backend], quantize=recipe,
        calibration=None if recipe == "int8-dynamic" else samples, **({"runtime": EDGECORE} if runs_kernels else {}),
    )  # fmt: skip


def check(model, backend, recipe):
    if backend != "kernels" and importlib.util.find_spec(f"edgecore_{backend}") is None:
        pytest.skip(f"needs edgecore-{backend}")
    before = {name: value.clone() for name, value in model.named_buffers()}
    with torch.no_grad():
        program = compiled(model, backend, recipe, SAMPLES)
        assert [name for name, value in model.named_buffers() if not torch.equal(value, before[name])] == []
        loaded = edgecore.load(program.buffer)
        wrong = []
        for sample in SAMPLES[:4]:
            wanted = model(*sample)
            got = loaded.forward(*sample)
            for name, value in wanted.items():
                error = (torch.as_tensor(got[name]) - value).abs().max() / value.abs().max()
                wrong += [(name, float(error))] if error > 0.1 else []
    assert wrong == []


@pytest.mark.parametrize("backend", CASES)
@pytest.mark.parametrize("network", [Forms, Stateful])
def test_the_file_keeps_every_write(network, backend):
    check(network().eval().requires_grad_(False), backend, CASES[backend])


def test_dynamic_ranges_keep_state():
    check(Stateful().eval().requires_grad_(False), "xnnpack", "int8-dynamic")
