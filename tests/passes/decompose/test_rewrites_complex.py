"""Fourier transforms: the only programs with complex tensors between their kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import edgecore
from edgecore.errors import CompileError


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def method_of(function, x):
    return edgecore.load(edgecore.compile(Function(function).eval(), (x,), backends=[]).buffer).forward


CASES = {
    "spectrum": lambda x: torch.view_as_real(torch.fft.rfft(x)),
    "power": lambda x: torch.view_as_real(torch.fft.rfft(x)).square().sum(-1),
    "there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
    "conjugate": lambda x: torch.view_as_real(torch.fft.rfft(x).conj().resolve_conj()),
    "all frequencies": lambda x: torch.view_as_real(torch.fft.fft(x)),
    "real part of all frequencies of two dims": lambda x: torch.fft.fftn(x, dim=(0, 1), norm="ortho").real,
    "two dims": lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="ortho")),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_fourier_transforms_equal_eager(name, dtype):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    torch.testing.assert_close(method_of(CASES[name], x)(x), CASES[name](x))


def test_inputs_and_outputs_may_be_complex():
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    spectrum, back = method_of(torch.fft.rfft, x), method_of(torch.fft.irfft, torch.fft.rfft(x))
    for given, library in ((x, torch.Tensor), (x.numpy(), np.ndarray)):
        result = spectrum(given)
        assert type(result) is library
        np.testing.assert_allclose(result, torch.fft.rfft(x), atol=1e-6)
        np.testing.assert_allclose(back(result), x, atol=1e-6)
    plain = memoryview(x.numpy().tobytes()).cast("f", (3, 8))
    np.testing.assert_allclose(spectrum(plain).tolist(), torch.fft.rfft(x), atol=1e-6)


def test_a_transform_of_complex_numbers_is_refused():
    with pytest.raises(CompileError, match=r"aten\._fft_c2c\.default .* is not an operator of the edge dialect"):
        method_of(lambda x: torch.view_as_real(torch.fft.fft(torch.fft.rfft(x))), torch.randn(8))


def test_an_operator_without_complex_kernel_is_refused():
    with pytest.raises(CompileError, match=r"aten\.mul\.Tensor .* does not accept complex64 with complex64"):
        method_of(lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x)), torch.randn(8))
