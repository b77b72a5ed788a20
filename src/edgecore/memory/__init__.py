"""Memory planning: tensor specs, lifetimes, planners."""

from edgecore.memory.planners import Planner, greedy, naive
from edgecore.memory.planning import MemoryPlan, MemoryPlanningPass
from edgecore.memory.specs import TensorSpec

__all__ = ["MemoryPlan", "MemoryPlanningPass", "Planner", "TensorSpec", "greedy", "naive"]
