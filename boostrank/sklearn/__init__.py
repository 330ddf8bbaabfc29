"""Scikit-learn interface with an estimator, and splitters that keep queries whole.

Only this part of boostrank needs the extra `sklearn`.
"""

from __future__ import annotations

from boostrank.core.errors import MissingDependency

try:
    from sklearn.utils.validation import validate_data as _  # noqa: F401  # since 1.6
except ImportError as error:
    raise MissingDependency(
        "BoostRanker and the splitters need scikit-learn 1.7 or later: pip install"
        " 'boostrank[sklearn]'"
    ) from error

from boostrank.sklearn.estimator import BoostRanker
from boostrank.sklearn.splitters import QueryKFold, QueryTimeSplit

__all__ = ["BoostRanker", "QueryKFold", "QueryTimeSplit"]
