"""Arguments that change during a call, and arguments that would need more memory than there is."""

from __future__ import annotations

import pytest

import edgecore
from edgecore.errors import ExecutionError

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


def test_a_wrong_shape_is_refused_before_it_is_copied(programs):
    add = edgecore.load(programs["add"]).forward
    huge = np.broadcast_to(np.float32(1), (2**30, 2**20))
    with pytest.raises(ExecutionError, match=r"dim 0 must be 2, got 1073741824"):
        add(huge, np.ones((2, 3), np.float32))


class Once:
    """A sequence that makes its items when asked, and forgets them."""

    def __init__(self, shape):
        self.shape = shape
        self.given = []

    def __len__(self):
        return 1

    def __getitem__(self, index):
        self.given.append(torch.zeros(self.shape))
        return self.given.pop()


def test_buffers_given_as_out_are_kept_alive(programs):
    add = edgecore.load(programs["add"]).forward
    x = torch.ones(2, 3)
    assert torch.equal(add(x, x, out=Once((2, 3))), x + x)


def test_an_empty_out_of_torch_is_returned(programs):
    model = edgecore.load(programs["dynamic"]).forward
    x = torch.ones(0, 3)
    out = [torch.empty(0, 3), torch.empty(0, 3)]
    assert all(given is got for given, got in zip(out, model(x, out=out), strict=True))
    with pytest.raises(ExecutionError, match="has the shape"):
        model(torch.ones(2, 3), out=out)
