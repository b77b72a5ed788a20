"""Bytes of constants."""

import pytest
import torch

from edgecore.emit.constant_data import tensor_bytes

TENSORS = {
    "dense": torch.arange(6.0).reshape(2, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "one element with a stride of 3": torch.arange(6.0).reshape(2, 3)[1:, 1::3],
    "a number": torch.tensor(2.5),
    "no elements": torch.empty(0, 3),
}


@pytest.mark.parametrize("name", TENSORS)
def test_the_bytes_of_a_tensor_are_those_of_its_elements_in_order(name: str) -> None:
    tensor = TENSORS[name]
    order = tuple(range(tensor.dim()))
    assert bytes(tensor_bytes(tensor, order)) == tensor.contiguous().numpy().tobytes()
