"""Order the rows of q and k: RoPE pairs rows i and i + dim / 2 in Hugging Face's files, 2i and 2i + 1 elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interleaved_rows(heads: int, head_dim: int) -> NDArray[np.int64]:
    """Return the row in the file (interleaved pairs) of each Hugging Face row: per head 0, 2, ..., 1, 3, ..."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return rows.transpose(0, 2, 1).reshape(-1)
