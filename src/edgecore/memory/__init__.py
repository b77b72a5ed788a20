"""Memory planning: tensor specs, lifetimes, shared memory, and planners."""

from edgecore.memory.memories import Memory
from edgecore.memory.planners import Planner, annealed, best_fit, greedy, lower_bound, naive, searching
from edgecore.memory.planning import MemoryPlan, MemoryPlanningPass
from edgecore.memory.specs import TensorSpec

__all__ = [
    "Memory",
    "MemoryPlan",
    "MemoryPlanningPass",
    "Planner",
    "TensorSpec",
    "annealed",
    "best_fit",
    "greedy",
    "lower_bound",
    "naive",
    "searching",
]
