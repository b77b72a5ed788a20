"""Order the rows of q and k: RoPE pairs rows i and i + dim / 2 in Hugging Face's files, 2i and 2i + 1 elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interleaved_rows(heads: int, head_dim: int) -> NDArray[np.int64]:
    """Return the file's row (pairs interleaved) for each row in Hugging Face's order: 0, 2, ..., 1, 3, ... per head."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return rows.transpose(0, 2, 1).reshape(-1)
