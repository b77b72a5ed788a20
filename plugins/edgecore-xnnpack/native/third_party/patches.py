"""Changes of ours to XNNPACK's sources. Each replaces a text that occurs once in its file, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Patch:
    """``path`` is relative to the folder of the sources."""

    path: str
    old: str
    new: str


XNNPACK_PATCHES = [
    # The planner of the workspace never put a tensor before the first one that is live at the same time. Along a chain
    # of layers each tensor came after the last, and none was reused: ResNet-50's workspace had 44 MB instead of 7.
    Patch(
        "src/memory-planner.c",
        """  if (num_mem_blocks == 1) {
    return live_mem_blocks[0].end;
  }
""",
        "",
    ),
    Patch(
        "src/memory-planner.c",
        """  size_t smallest_gap_size = SIZE_MAX;
""",
        """  if (live_mem_blocks[0].start >= to_alloc_size) {
    return 0;
  }
  size_t smallest_gap_size = SIZE_MAX;
""",
    ),
]


def apply(patches: list[Patch], source: Path) -> None:
    """Patch the files under ``source``. Raises ValueError when a text is not there exactly once."""
    for patch in patches:
        file = source / patch.path
        text = file.read_text()
        if text.count(patch.old) != 1:
            raise ValueError(f"{patch.path} is not the file that patches.py was written for; update the patch.")
        file.write_text(text.replace(patch.old, patch.new))
