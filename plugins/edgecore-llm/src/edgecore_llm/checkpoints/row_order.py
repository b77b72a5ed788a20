"""The order of the rows of q and k: rotary pairs as halves of a head, as Hugging Face has them, or interleaved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interleaved_rows(heads: int, head_dim: int) -> NDArray[np.int64]:
    """Return for each row of Hugging Face the row of a file with interleaved pairs: 0, 2, 4, ..., 1, 3, 5, ... per head."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return rows.transpose(0, 2, 1).reshape(-1)
