"""Row order of q and k: Hugging Face pairs rows i and i + dim / 2 of a head for rotation, other files 2i and 2i + 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interleaved_rows(heads: int, head_dim: int) -> NDArray[np.int64]:
    """Map rows in Hugging Face's order to rows of a file with interleaved pairs: 0, 2, ..., 1, 3, ... per head."""
    rows = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return rows.transpose(0, 2, 1).reshape(-1)
