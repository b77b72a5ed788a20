"""Constructs of real models that once failed: compiled, run, and compared with eager."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import torch.nn.functional as F
from small_models import Call
from torch import nn

import edgecore

BACKENDS = [(), *([("xnnpack",)] if importlib.util.find_spec("edgecore_xnnpack") else [])]
WINDOW = torch.hann_window(64)
FILTERS = torch.rand(20, 33, generator=torch.Generator().manual_seed(1))


class Guarded(nn.Module):
    """An attention that leaves autocast, as those of EfficientViT."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        x = self.conv(x)
        with torch.autocast("cpu", enabled=False):
            return F.relu(x.transpose(-1, -2)).float() * 2


class Wrapping(nn.Module):
    """Circular padding of one dim, of two, and by the whole size."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular")
        self.images = nn.Conv2d(4, 2, (3, 5), padding=(0, 2), padding_mode="circular")

    def forward(self, x):
        return self.images(F.pad(self.rows(x).unsqueeze(2), (4, 4, 1, 1), mode="circular"))


def stft(x, **options):
    return torch.stft(x, 64, hop_length=16, window=WINDOW, return_complex=True, **options)


def filter_bank(x):
    """Whisper's spectrogram: the last frame is dropped."""
    return (FILTERS @ (stft(x)[..., :-1].abs() ** 2)).clamp(min=1e-10).log10()


def parts(x):
    spectrum = stft(x)
    return spectrum.real * 2, spectrum.imag, spectrum.angle().cos()


def there_and_back(x):
    return torch.istft(stft(x), 64, 16, window=WINDOW)


def image(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


SIGNAL = image(2, 256)
ODD = torch.tensor([[3.0, float("nan"), -1.0, 0.5, 2.0], [float("inf"), 1.0, 0.25, -float("inf"), -7.0]])
aten = torch.ops.aten
EDGES = torch.tensor([-1.0, 0.5, 0.5, 2.0])
CASES = {
    "padding valid": (nn.Conv2d(3, 4, 3, padding="valid"), image(1, 3, 8, 9)),
    "lists of one number": (
        Call(lambda x: aten.convolution(x, x[:, :, :3, :3], None, [2], [1], [1], False, [0], 1)),
        image(1, 3, 8, 9),
    ),
    "transposed, with lists of one number": (
        Call(lambda x: aten.convolution(x, torch.ones(3, 2, 3, 3), None, [2], [1], [1], True, [1], 1)),
        image(1, 3, 4, 5),
    ),
    "pooling with lists of one number": (
        Call(lambda x: (aten.max_pool2d(x, [3], [2], [1]), aten.avg_pool2d(x, [2]))),
        image(1, 3, 8, 9),
    ),
    "float outside autocast": (Guarded(), image(1, 3, 8, 9)),
    "circular padding": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), image(1, 3, 8, 9)),
    "circular padding of several dims": (Wrapping(), image(1, 4, 7)),
    "circular padding that crops": (Call(lambda x: F.pad(x, (2, -1), mode="circular") * 2), image(1, 4, 7)),
    "spectrogram": (Call(filter_bank), SIGNAL),
    "spectrogram of one signal": (Call(lambda x: stft(x, center=False, normalized=True).abs()), SIGNAL[0]),
    "complex spectrogram": (Call(stft), SIGNAL),
    "complex spectrogram of one signal": (Call(stft), SIGNAL[0]),
    "parts of a spectrogram": (Call(parts), SIGNAL),
    "spectrogram and back": (Call(there_and_back), SIGNAL),
    "fold of blocks that overlap": (nn.Fold((6, 7), (3, 2), padding=1, stride=(2, 1)), image(2, 2 * 6, 24)),
    "fold of dilated blocks": (nn.Fold((6, 6), (2, 2), dilation=2), image(1, 3 * 4, 16)),
    "fold of blocks side by side": (nn.Fold((6, 8), (3, 2), stride=(3, 2)), image(2, 4 * 6, 8)),
    "fold without a batch": (nn.Fold((6, 8), (3, 2), stride=(3, 2)), image(4 * 6, 8)),
    "fold that leaves a border": (nn.Fold((7, 8), (3, 2), stride=(3, 2)), image(2, 4 * 6, 8)),
    "sort": (Call(lambda x: x.sort(-1)), ODD),
    "sort of columns, descending": (Call(lambda x: torch.sort(x, 0, descending=True)[0]), ODD),
    "argsort": (Call(lambda x: x.argsort(1, descending=True)), ODD),
    "sort of a constant boolean": (Call(lambda x: x + torch.sort(torch.tensor(True))[0]), ODD),
    "sort of booleans": (Call(lambda x: (x > 0).sort(-1)[0]), ODD),
    "powers of 2": (Call(torch.exp2), ODD),
    "transposed convolution of a transposed row": (
        Call(lambda x: F.conv_transpose1d(x.t(), torch.ones(3, 1, 5), stride=2, output_padding=1, groups=3)),
        image(1, 3),
    ),
    "cumprod": (Call(lambda x: x.cumprod(0) + x.cumprod(1)), image(5, 7)),
    "cumprod of integers": (Call(lambda x: (x * 3).to(torch.int32).cumprod(1)), image(5, 4)),
    "bucketize": (Call(lambda x: torch.bucketize(x, EDGES)), ODD),
    "bucketize, right, int32": (Call(lambda x: torch.bucketize(x, EDGES, out_int32=True, right=True)), ODD),
    "searchsorted": (Call(lambda x: torch.searchsorted(torch.stack([EDGES, EDGES + 1]), x, side="right")), ODD),
    "bilinear": (nn.Bilinear(4, 5, 6), image(2, 3, 4), image(2, 3, 5)),
    "bilinear without bias": (nn.Bilinear(4, 5, 6, bias=False), image(3, 4), image(3, 5)),
    "rrelu": (nn.RReLU(), image(3, 5)),
    "random numbers of the same shape": (
        Call(lambda x: (torch.rand_like(x) < 2) * x + 0 * torch.randn_like(x)),
        SIGNAL,
    ),
    "results with names": (Call(lambda x: x.max(1)), image(3, 5)),
}


@pytest.mark.parametrize("backends", BACKENDS, ids=lambda backends: "+".join(backends) or "kernels")
@pytest.mark.parametrize("name", CASES)
def test_constructs_that_once_failed_equal_eager(name, backends):
    model, *inputs = CASES[name]
    program = edgecore.compile(model.eval(), tuple(inputs), backends=backends)
    got, want = edgecore.load(program.buffer).forward(*inputs), model(*inputs)
    got, want = (list(one) if isinstance(one, (tuple, list)) else [one] for one in (got, want))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_cumprod_multiplies_in_order():
    x = torch.tensor([1e-30, 1e-30, 1e30, 1e30, 2.0, 0.0, 5.0])
    got = edgecore.load(edgecore.compile(Call(lambda x: x.cumprod(0)).eval(), (x,)).buffer).forward(x)
    torch.testing.assert_close(got, x.cumprod(0), rtol=0, atol=0)


def test_cumprod_and_bucketize_of_dynamic_sizes_equal_eager():
    model = Call(lambda x: (x.cumprod(-1), torch.bucketize(x, EDGES))).eval()
    shapes = ({1: torch.export.Dim("n", min=2, max=9)},)
    method = edgecore.load(edgecore.compile(model, (image(2, 5),), dynamic_shapes=(shapes,)).buffer).forward
    for size in (2, 5, 9):
        x = image(2, size)
        torch.testing.assert_close(method(x), list(model(x)))


@pytest.mark.parametrize("name", ["circular padding", "bilinear", "padding valid", "float outside autocast", "rrelu"])
def test_constructs_of_real_models_are_delegated_to_xnnpack_as_a_whole(name):
    pytest.importorskip("edgecore_xnnpack")
    model, *inputs = CASES[name]
    edgecore.compile(model.eval(), tuple(inputs), backends=[edgecore.Backend("xnnpack", required=True)])
