"""The bytes after tensors that kernels read, as the delegate requests them."""

from __future__ import annotations

import re
from pathlib import Path

HEADER = Path(__file__).parents[2] / "native" / "src" / "padding.h"


def test_the_delegate_knows_how_many_elements_the_first_pass_of_a_max_pooling_covers(xnnpack_sources: Path) -> None:
    table = (xnnpack_sources / "src" / "configs" / "maxpool-config.c").read_text()
    numbers = re.findall(r"first_pass_tile_size = (\d+);", table)
    assert len(numbers) > 20
    assert re.findall(r"kMaxPoolFirstPass = (\d+);", HEADER.read_text()) == list(set(numbers))
