"""Interface for watching a training: progress, logs and tables derive from `Observer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.fit.plan import Member, Plan
    from boostrank.model.ranking_model import RankingModel


class Observer:
    """Receives the steps of a training. All methods are optional; rounds are reported to `callbacks`."""

    def choosing(self, trainings: int) -> None:
        """Called before columns within queries are cross-validated, with the number of trainings."""

    def chosen(self, choice: Mapping[str, Any]) -> None:
        """Called with the result of the cross-validation."""

    def planned(self, plan: Plan) -> None:
        """Called once, before the first training."""

    def fold_ended(self, fold: int, member: Member, model: RankingModel) -> bool:
        """Called after each fold; return False to skip the remaining folds."""
        return True


SILENT = Observer()
"""Ignores everything."""
