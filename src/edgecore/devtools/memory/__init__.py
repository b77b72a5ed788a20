"""Memory over time as planned in a file: arenas, their tensors and their peak."""

from edgecore.devtools.memory.text import describe_memory, memory_text
from edgecore.devtools.memory.timeline import Allocation, allocations, delegate_needs, generate_memory_trace, peak

__all__ = [
    "Allocation",
    "allocations",
    "delegate_needs",
    "describe_memory",
    "generate_memory_trace",
    "memory_text",
    "peak",
]
