"""Learning: the metric of the first trees, and the objective's own trace."""

from boostrank.core.deprecation import renamed

_MOVED = "History Learning learning"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.learning.analysis"))
