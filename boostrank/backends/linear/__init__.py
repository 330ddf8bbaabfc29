"""Linear rankers behind the backend contract."""

from boostrank.core.deprecation import renamed

__getattr__ = renamed(__name__, {"PARAMS": "boostrank.backends.linear.backend"})
