"""Networks that write through views, and networks with state, whose writes quantization must keep."""

import torch
from torch import nn

WIDTH = 32  # recipes of 4 bits quantize matrices from 1,024 elements on
SAMPLES = [(torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed)),) for seed in range(6)]


def part_of_clone(x, y):
    z = x.clone()
    z[:, :4] = torch.sigmoid(y[:, :4])
    return z


def part_of_result(x, y):
    y[:, :4] = torch.sigmoid(y[:, :4])
    return y


def strided(x, y):
    y[:, 0::2] = y[:, 0::2] * 2
    return y


def scaled_part(x, y):
    y[:, :4].mul_(2)
    return y


def through_reshape(x, y):
    y.view(-1).mul_(2)
    return y


def view_before_write(x, y):
    part = y[:, :4]
    y.add_(1)
    return part * 2


def row(x, y):
    y[0] = x[1]
    return y


def into_zeros(x, y):
    z = torch.zeros_like(x)
    z[:, 2:6] = y[:, 2:6]
    return z


def clamped_part(x, y):
    y[:, :4].clamp_(0, 0.5)
    return y


def copied_part(x, y):
    y[:, 16:].copy_(y[:, :16])
    return y


def transposed(x, y):
    y.t()[0] = x[:, 1]
    return y


def unbound(x, y):
    y.unbind(0)[1].mul_(2)
    return y


def chunk(x, y):
    y.chunk(2, 1)[0].add_(1)
    return y


def part_of_part(x, y):
    y[:, :4][:, 1:3].mul_(3)
    return y


def masked(x, y):
    y[:, torch.arange(WIDTH) % 3 == 0] = 0.25
    return y


def diagonal(x, y):
    y.diagonal().zero_()
    return y


def rectified_part(x, y):
    y[:, 3:].relu_()
    return y


def unsqueezed(x, y):
    y.unsqueeze(1)[:, 0, 2:5] = 0.5
    return y


def whole(x, y):
    return y.mul_(2).add_(x).relu_()


FORMS = [
    part_of_clone, part_of_result, strided, scaled_part, through_reshape, view_before_write, row, into_zeros,
    clamped_part, copied_part, transposed, unbound, chunk, part_of_part, masked, diagonal, rectified_part, unsqueezed,
    whole,
]  # fmt: skip


class Forms(nn.Module):
    """A layer for each of `FORMS`, which changes the layer's result in place; the results are in a dict by its name."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleDict({form.__name__: nn.Linear(WIDTH, WIDTH) for form in FORMS})

    def forward(self, x):
        return {form.__name__: form(x, self.layers[form.__name__](x)) for form in FORMS}


def counter_after(state, x, y):
    y = y + state["n"]
    state["n"].add_(1)
    return y


def counter_before(state, x, y):
    state["n"].add_(1)
    return y + state["n"]


def integer_counter(state, x, y):
    y = y * state["steps"]
    state["steps"].add_(1)
    return y


def flag(state, x, y):
    y = torch.where(state["ready"], y, x)
    state["ready"].fill_(True)
    return y


def reset(state, x, y):
    y = y + state["s"]
    state["s"].zero_().add_(x * 0.5)
    return y


def average(state, x, y):
    state["s"].lerp_(y, 0.5)
    return state["s"] + x


def decay(state, x, y):
    state["s"].mul_(0.5).add_(x)
    return y + state["s"]


def window(state, x, y):
    state["s"][:-1] = state["s"][1:].clone()
    state["s"][-1] = x[0]
    return y + state["s"]


def joined(state, x, y):
    """Read the state in a list, which torchao's constant folding overlooks."""
    both = torch.cat([state["s"], state["t"]], 1)
    state["s"].copy_(y)
    return both @ state["m"] + y


def filled(state, x, y):
    y = y * state["s"]
    state["s"].fill_(0.5)
    return y


def weight(state, x, y):
    """Use the state as the weight of a layer."""
    result = nn.functional.linear(x, state["m"])[:, :WIDTH] + y
    state["m"].copy_(state["m"].flip(0))
    return result


STATEFUL = [counter_after, counter_before, integer_counter, flag, reset, average, decay, window, joined, filled, weight]


class Stateful(nn.Module):
    """A layer for each of `STATEFUL`, with buffers of its own, which it writes; the results are in a dict by its name."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleDict({form.__name__: nn.Linear(WIDTH, WIDTH) for form in STATEFUL})
        for form in STATEFUL:
            buffers = {
                "n": torch.zeros(4, WIDTH), "s": torch.ones(4, WIDTH), "t": torch.randn(4, WIDTH),
                "m": torch.randn(2 * WIDTH, WIDTH) / 8, "steps": torch.tensor(1), "ready": torch.tensor(False),
            }  # fmt: skip
            for name, value in buffers.items():
                self.register_buffer(f"{form.__name__}_{name}", value, persistent=name != "s")

    def forward(self, x):
        results = {}
        for form in STATEFUL:
            name = form.__name__
            state = {key: getattr(self, f"{name}_{key}") for key in ("n", "s", "t", "m", "steps", "ready")}
            results[name] = form(state, x, self.layers[name](x))
        return results
