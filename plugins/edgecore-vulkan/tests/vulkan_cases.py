"""Models of one or two operators that both runtimes support, with inputs."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

X, Y = torch.randn(1, 8, 12, 12), torch.randn(1, 8, 12, 12)
V, B = torch.randn(4, 16), torch.randn(4, 16) > 0
CASES = {
    "add": (lambda a, b: torch.add(a, b, alpha=2), X, Y),
    "broadcast": (torch.mul, X, torch.randn(8, 1, 1)),
    "rsub": (lambda a: 3 - a, X),
    "int": (lambda a: a * 2 - 1, torch.arange(5)),
    "maximum": (torch.maximum, X, Y),
    "silu": (F.silu, X),
    "hardsigmoid": (F.hardsigmoid, X),
    "leaky": (F.leaky_relu, X),
    "reciprocal": (torch.reciprocal, X),
    "clamp": (lambda a: a.clamp(min=0.5), X),
    "power": (lambda a: a.abs() ** 3, X),
    "softmax": (lambda a: a.softmax(1), X),
    "layer norm": (nn.LayerNorm(16), V),
    "group norm": (nn.GroupNorm(2, 8), X),
    "batch norm": (nn.BatchNorm2d(8), X),
    "rms norm": (nn.RMSNorm(16), V),
    "mean": (lambda a: a.mean((2, 3)), X),
    "sum": (lambda a: a.sum(), X),
    "amax": (lambda a: a.amax((1, 2)), X),
    "argmax": (lambda a: a.argmax(1), V),
    "argmax of all": (lambda a: a.argmax(), V),
    "max pool": (nn.MaxPool2d(3, 2, 1), X),
    "average pool": (nn.AvgPool2d(2), X),
    "adaptive": (nn.AdaptiveAvgPool2d(3), X),
    "nearest": (nn.Upsample(scale_factor=2), X),
    "bilinear": (nn.Upsample(size=(20, 20), mode="bilinear"), X),
    "convolution": (nn.Sequential(nn.Conv2d(8, 4, 3), nn.ReLU()), X),
    "transposed": (nn.ConvTranspose2d(8, 4, 2, 2), X),
    "line": (nn.Conv1d(8, 4, 3, padding=1), torch.randn(1, 8, 20)),
    "linear": (nn.Linear(16, 4), torch.randn(2, 3, 16)),
    "bmm": (torch.bmm, torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "addmm": (torch.addmm, torch.randn(4, 4), V, torch.randn(16, 4)),
    "attention": (partial(F.scaled_dot_product_attention, is_causal=True), *torch.randn(3, 1, 2, 4, 8)),
    "cat": (lambda a, b: torch.cat([a, b], 1) + 1, X, Y),
    "stack": (lambda a, b: torch.stack([a, b]) + 1, V, V * 2),
    "slice": (lambda a: a[:, 2:-1:2] + 1, X),
    "select": (lambda a: a[:, -1] + 1, X),
    "split": (lambda a: [part + 1 for part in a.split(3, 1)], X),
    "expand": (lambda a: a.expand(3, 4, 16) + 1, V),
    "permute": (lambda a: a.permute(0, 2, 3, 1) + 1, X),
    "pad": (lambda a: F.pad(a, (1, 2, 3, 4)) + 1, X),
    "repeat": (lambda a: a.repeat(2, 3) + 1, V),
    "flip": (lambda a: a.flip(1) + 1, V),
    "gather": (lambda a, i: a.gather(1, i) + 1, V, torch.zeros(4, 3, dtype=torch.long)),
    "index_select": (lambda a, i: a.index_select(0, i) + 1, V, torch.tensor([0, 2])),
    "embedding": (nn.Embedding(10, 4), torch.tensor([0, 2])),
    "where": (lambda c, a: torch.where(c, a, 0.0), B[:1], V),
    "compare": (lambda a, b: (a == b, a != b, a > 0.5, a != 0.5), V, V * 2),
    "logic": (lambda a, b: (a & b) | ~a, B, ~B[:, :1]),
    "any": (lambda a: a.any(1), B),
    "convert": (lambda a: a.to(torch.int32) * 2, V),
    "half": (nn.Sequential(nn.Linear(16, 4), nn.ReLU()).half(), V.half()),
}
