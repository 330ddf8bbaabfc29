"""One file an objective. `OBJECTIVES` finds them; nothing else lists them."""

from boostrank.core.registry import Registry
from boostrank.kernels.objective.contract import ObjectiveSpec

OBJECTIVES: Registry[ObjectiveSpec] = Registry("boostrank.objectives", "objective")
