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
    # A clamp after a node that limits its output became part of it also where the two ranges do not overlap, which
    # leaves no range; and where that node is no clamp, the bounds were written over its padding.
    Patch(
        "src/subgraph.c",
        """      if (is_clamp(consumer) && has_clamp(producer)) {
""",
        """      if (is_clamp(consumer) && has_clamp(producer) &&
          math_max_f32(producer->activation.output_min, consumer->activation.output_min) <
              math_min_f32(producer->activation.output_max, consumer->activation.output_max)) {
""",
    ),
    Patch(
        "src/subgraph.c",
        """        producer->params.unary.clamp.min =
            math_max_f32(producer->params.unary.clamp.min,
                          consumer->params.unary.clamp.min);
        producer->params.unary.clamp.max =
            math_min_f32(producer->params.unary.clamp.max,
                          consumer->params.unary.clamp.max);
""",
        """        if (is_clamp(producer)) {
          producer->params.unary.clamp.min = producer->activation.output_min;
          producer->params.unary.clamp.max = producer->activation.output_max;
        }
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
