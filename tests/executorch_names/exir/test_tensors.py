"""Functions of dim orders, strides and sizes that scripts call."""

from __future__ import annotations

import pytest
import torch

from edgecore.executorch.exir import tensors


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 5), (2, 0, 3)])
def test_strides_of_contiguous_tensors_are_those_of_torch(shape):
    assert tensors.contiguous_stride_from_shape(shape) == torch.empty(shape).stride()
    assert tensors.num_bytes_from_shape_and_dtype(shape, torch.float16) == torch.empty(shape).numel() * 2


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_dim_orders_and_strides_are_each_others_inverse(memory_format):
    x = torch.empty(2, 3, 4, 5).to(memory_format=memory_format)
    order = tensors.dim_order_from_stride(x.stride())
    assert order == x.dim_order()
    assert tuple(tensors.stride_from_dim_order(x.shape, order)) == x.stride()
    assert tensors.get_dim_order(memory_format, 4) == list(order)
    assert tensors.get_memory_format(order) == memory_format
    is_last = memory_format == torch.channels_last
    assert tensors.is_channel_last_dim_order(x) == is_last and tensors.is_contiguous_dim_order(x) == (not is_last)


def test_what_has_no_dim_order_or_memory_format_is_refused():
    with pytest.raises(RuntimeError, match="a stride of 0"):
        tensors.dim_order_from_stride((1, 0))
    with pytest.raises(ValueError, match=r"no memory format has the dim order \[1, 0\]"):
        tensors.get_memory_format([1, 0])
    with pytest.raises(ValueError, match="3 dims has no memory format"):
        tensors.get_dim_order(torch.channels_last, 3)
