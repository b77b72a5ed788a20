"""Fourier transforms: the only programs with complex tensors between their kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from edge_programs import Function

import edgecore
from edgecore.errors import CompileError


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


class Filter(torch.nn.Module):
    """The layer of GFNet: a filter with a complex weight between transforms over inner dims."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 3, 4, 2, generator=torch.Generator().manual_seed(1)))

    def forward(self, x):
        spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(spectrum, s=x.shape[1:3], dim=(1, 2), norm="ortho")


def rotated(x):
    """The rotary embedding of Llama."""
    angles = torch.polar(torch.ones(6, 4), torch.arange(24.0).reshape(6, 4))
    pairs = torch.view_as_complex(x.reshape(2, 4, 6, 4, 2))
    return torch.view_as_real(pairs * angles).flatten(3)


def mixed(x):
    """AFNO: layers of real and imaginary parts between transforms."""
    spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
    real, imaginary = torch.relu(spectrum.real - spectrum.imag), torch.relu(spectrum.imag * 2)
    both = torch.view_as_complex(torch.stack([real, imaginary], -1))
    return torch.fft.irfft2(both, s=(4, 6), dim=(1, 2), norm="ortho")


COMPLEX = {
    "inner dims": lambda x: torch.view_as_real(torch.fft.rfft2(x, dim=(1, 2))),
    "outer dims": lambda x: torch.fft.rfftn(x, dim=(0, 2)).abs(),
    "inner dims and back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, dim=(1, 2)), s=(4, 6), dim=(1, 2)),
    "complex result of inner dims": lambda x: torch.fft.rfftn(x, dim=(1, 2)),
    "rotary embedding": rotated,
    "mixer": mixed,
    "convolution": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(0)), n=8),
    "odd length": lambda x: torch.fft.irfft(torch.fft.rfft(x[..., :7]) * 2, n=7, norm="forward"),
    "length 1": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=1),
    "longer": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=12, norm="ortho"),
    "imaginary parts that do not count": lambda x: torch.fft.irfft(torch.complex(x[..., :5], x[..., 3:]), n=8),
    "three dims": lambda x: torch.fft.irfftn(torch.fft.rfftn(x, dim=(1, 2, 3)).conj() * 2, dim=(1, 2, 3)),
    "inverse of complex numbers": lambda x: torch.fft.ifft2(torch.fft.fft2(x) * torch.fft.fft2(x.flip(0))).real,
    "quotient": lambda x: torch.view_as_real(torch.fft.rfft(x) / torch.fft.rfft(x.exp())),
    "mask": lambda x: torch.fft.irfft(torch.fft.rfft(x) * x[..., :5], n=8),
    "sum with real numbers": lambda x: torch.fft.rfft(x).add(x[..., :5]).abs(),
    "number": lambda x: torch.view_as_real(x * (2 + 3j)),
    "wave": lambda x: torch.exp(1j * x).real,
    "shifted": lambda x: torch.fft.fftshift(torch.fft.fft(x)).abs(),
    "matrices": lambda x: torch.view_as_real(torch.fft.rfft(x[0]) @ torch.fft.rfft(x[1]).transpose(1, 2)),
    "mean": lambda x: (torch.fft.rfft(x) * 2).mean(1).abs(),
    "transform of a conjugate": lambda x: torch.fft.hfft(torch.complex(x, x.flip(0)), dim=1),
    "angle of a product": lambda x: (torch.fft.rfft(x) * torch.fft.rfft(x)).angle(),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_arithmetic_equals_eager(name):
    x = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(method_of(COMPLEX[name], x)(x), COMPLEX[name](x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backends", [[], ["xnnpack"]])
def test_a_filter_with_a_complex_weight_equals_eager(backends):
    model, x = Filter().eval(), torch.randn(2, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    result = edgecore.load(edgecore.compile(model, (x,), backends=backends).buffer).forward(x)
    torch.testing.assert_close(torch.from_dlpack(result), model(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function", [lambda x: torch.fft.rfft(x) * torch.fft.rfft(x), lambda x: torch.fft.rfft(x).tanh().abs()]
)
def test_what_has_no_real_form_is_refused_with_what_to_do(function):
    with pytest.raises(
        CompileError, match="compute this with real and imaginary parts, which torch.view_as_real gives"
    ):
        method_of(function, torch.randn(8))


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: torch.complex(x, x).sqrt().real, "aten.sqrt"),
        (lambda x: ((torch.complex(x, x) * torch.complex(x, -x)).log() * 2j).abs(), "aten.log"),
        (lambda x: torch.complex(x, x) == torch.complex(x, -x), "aten.eq"),
        (lambda x: torch.view_as_complex(x.reshape(4, 2)).cumsum(0).imag, "aten.cumsum"),
        (
            lambda x: torch.linalg.solve(torch.complex(x.outer(x), x.outer(x)), torch.complex(x, x)).real,
            "aten._linalg_solve",
        ),
        (lambda x: torch.complex(x, x), "aten.complex"),
    ],
)
def test_the_operator_without_real_form_is_named_and_not_the_one_that_makes_its_operand(function, operator):
    with pytest.raises(CompileError, match=f"^after the pass decompose: {operator}.*with real and"):
        method_of(function, torch.randn(8))
