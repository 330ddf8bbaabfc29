"""Linear rankers behind the backend contract."""

from boostrank.core.deprecation import renamed

_MOVED = "PARAMS"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.backends.linear.backend"))
