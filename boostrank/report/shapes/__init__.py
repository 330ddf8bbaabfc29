"""Shapes: accumulated local effects and interactions of features."""

from boostrank.core.deprecation import renamed

_MOVED = "Dependence Shapes shapes"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.report.shapes.analysis"))
