"""One file an objective. `OBJECTIVES` finds them; nothing else lists them."""

from boostrank.core.registry import Registry
from boostrank.kernels.spec import ObjectiveSpec

OBJECTIVES: Registry[ObjectiveSpec] = Registry("boostrank.objectives", "objective")
