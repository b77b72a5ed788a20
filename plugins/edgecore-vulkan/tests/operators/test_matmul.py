"""Run products of computed matrices, attention, and operators that take or repeat elements on the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from device_support import check_on_device
from torch import nn

attention = F.scaled_dot_product_attention
EDGECORE = ("edgecore",)
HALF = {"force_fp16": True, "tolerance": 2e-2}


@pytest.mark.parametrize("options", [{}, HALF], ids=["fp32", "fp16"])
@pytest.mark.parametrize("sizes", [(5, 7, 9), (8, 12, 16), (1, 4, 33), (70, 1, 3), (6, 130, 4)])
def test_products_of_matrices(sizes, options):
    m, k, n = sizes

    def model(a, b, x, y):
        return torch.mm(a, b), torch.bmm(x, y), torch.matmul(x, b)

    tensors = torch.randn(m, k), torch.randn(k, n), torch.randn(3, m, k), torch.randn(3, k, n)
    check_on_device(model, *[tensor / k**0.25 for tensor in tensors], **options)


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_linear_layers_with_computed_weights(lead):
    layer = nn.Linear(10, 5)

    def model(x, w, b):
        parts = F.linear(x, w, b), F.linear(x, w), F.linear(x, layer.weight.detach(), b)
        return *parts, F.linear(x, w, layer.bias.detach())

    check_on_device(model, torch.randn(*lead, 10), torch.randn(5, 10), torch.randn(5))


class Residual(nn.Module):
    """Linear layers with and without a tensor that is added to their result."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(48, 48) for _ in range(3))

    def forward(self, x):
        y = self.second(self.first(x)) + x
        return self.third(y), y


@pytest.mark.parametrize("options", [{}, HALF], ids=["fp32", "fp16"])
@pytest.mark.parametrize("rows", [1, 7, 28])
def test_sums_with_the_result_of_a_linear_layer(rows, options):
    check_on_device(Residual().eval(), torch.randn(rows, 48), **options)


def test_products_with_constants():
    w = torch.randn(3, 6, 4)
    check_on_device(lambda x, y: (torch.bmm(x, w), torch.addmm(y, x[0], w[0])), torch.randn(3, 5, 6), torch.randn(5, 4))


@pytest.mark.parametrize("options", [{}, HALF], ids=["fp32", "fp16"])
@pytest.mark.parametrize("sizes", [(5, 9, 8), (16, 300, 12), (7, 3, 5)])
def test_attention_with_masks(sizes, options):
    length, keys, depth = sizes

    def model(q, k, v, wide, narrow):
        plain, scaled = attention(q, k, v), attention(q, k, v, wide, scale=0.3)
        return plain, scaled, attention(q, k, v, narrow), attention(q, k, v, is_causal=True)

    tensors = torch.randn(2, 3, length, depth), torch.randn(2, 3, keys, depth), torch.randn(2, 3, keys, depth)
    masks = torch.randn(2, 1, length, keys), torch.randn(1, keys)
    check_on_device(model, *tensors, *masks, runtimes=EDGECORE, **options)


def test_attention_in_a_blob_for_executorch():
    q, k, v = torch.randn(3, 1, 2, 8, 4)
    mask = torch.randn(1, 1, 8, 8)
    check_on_device(
        lambda *x: (attention(*x), attention(*x[:3], is_causal=True)), q, k, v, mask, runtimes=["executorch-1.5"]
    )


def test_attention_with_a_boolean_mask():
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 6)
    mask = torch.rand(2, 1, 5, 9) > 0.4
    mask[0, 0, 1] = False  # a row that sees nothing becomes zeros
    for options in ({}, HALF):
        check_on_device(attention, q, k, v, mask, runtimes=EDGECORE, **options)
    blocked = torch.zeros(5, 9)
    blocked[2], blocked[1, 3:] = -torch.inf, -torch.inf
    check_on_device(attention, q[0], k[0], v[0], blocked, runtimes=EDGECORE)


def test_attention_of_symbolic_length():
    length = torch.export.Dim("length", min=2, max=16)
    others = [(torch.randn(1, 2, size, 8), torch.randn(1, 1, size, size)) for size in (2, 16, 7)]
    check_on_device(
        lambda q, m: attention(q, q, q, m), *others[2], others=others, runtimes=EDGECORE,
        dynamic_shapes=(({2: length}, {2: length, 3: length}),),
    )  # fmt: skip


@pytest.mark.parametrize("width", [6, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_elements_taken_by_indices(width, dtype):
    x = (torch.randn(4, 5, width) * 10).to(dtype)
    i, j = torch.tensor([2, 0, 3, 3, 1]), torch.randint(0, 4, (3, 2, width))

    def model(x, i, j):
        parts = x.index_select(0, i), x.index_select(1, i), x.index_select(-1, i)
        return *[part + 1 for part in parts], x.gather(0, j), x.gather(2, j) + 1

    check_on_device(model, x, i, j)


def test_images_taken_by_indices():
    convolution = nn.Conv2d(3, 8, 1)

    def model(x, i, j):
        x = convolution(x)
        return x.index_select(1, i), x.index_select(3, i), x.gather(2, j), x.repeat(2, 1, 3, 1) + 1

    check_on_device(model, torch.randn(1, 3, 4, 5), torch.tensor([2, 0, 3, 3]), torch.randint(0, 4, (1, 5, 7, 4)))


def test_indices_count_from_the_end():
    x, i, j = torch.randn(4, 5, 8), torch.tensor([2, -1, 3, 3]), torch.tensor([[0, -3], [1, 2]])
    check_on_device(lambda x, i, j: (x[i] + 1, x[:, i] + 1, x[j] + 1, x[:, :, j] + 1), x, i, j, runtimes=EDGECORE)


@pytest.mark.parametrize("width", [6, 8])
def test_embedding_of_tokens(width):
    tokens = torch.tensor([[0, 2, 9], [9, 1, 4]])
    check_on_device(nn.Sequential(nn.Embedding(10, width), nn.Tanh()), tokens)
    check_on_device(nn.Sequential(nn.Embedding(10, width), nn.Tanh()), tokens, **HALF)


def test_indices_beyond_a_table_read_nothing_else():
    """PyTorch refuses them; a device cannot, and takes the nearest row."""
    import edgecore

    table = nn.Embedding(4, 3)
    program = edgecore.compile(
        table.eval(), (torch.tensor([0, 1]),), backends=[edgecore.Backend("vulkan", min_operators=1)]
    )
    assert "delegates: 1 x VulkanBackend" in str(program.report())
    result = torch.as_tensor(edgecore.load(program.buffer).forward(torch.tensor([2**30, -(2**30)])))
    torch.testing.assert_close(result, table.weight.detach()[[3, 0]])


def test_tensors_repeated_and_joined():
    def model(x):
        parts = [x[:, i : i + 2] * i for i in range(6)]
        return (
            torch.cat(parts, 1),
            torch.stack(parts, 2),
            x.repeat(2, 1) + 1,
            x.repeat(3, 2, 2) + 1,
            x.expand(2, 3, 8) + 1,
        )

    check_on_device(model, torch.randn(3, 8))
    check_on_device(lambda a, b: (torch.cat([a > 0, b]), torch.stack([b, b])), torch.randn(2, 3), torch.ones(2, 3) > 0,
                    runtimes=EDGECORE)  # fmt: skip
