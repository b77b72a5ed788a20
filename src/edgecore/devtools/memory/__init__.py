"""The memory plan of a file over time: arenas, their tensors, and the peak."""

from edgecore.devtools.memory.text import describe_memory as describe_memory
from edgecore.devtools.memory.text import memory_text as memory_text
from edgecore.devtools.memory.timeline import Allocation as Allocation
from edgecore.devtools.memory.timeline import allocations as allocations
from edgecore.devtools.memory.timeline import delegate_needs as delegate_needs
from edgecore.devtools.memory.timeline import generate_memory_trace as generate_memory_trace
from edgecore.devtools.memory.timeline import peak as peak
