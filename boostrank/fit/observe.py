"""What watches a training from outside: progress, logs and tables derive from `Observer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boostrank.fit.plan import Member, Plan
    from boostrank.model.ranking_model import RankingModel


class Observer:
    """Told of the steps of a training; each method may be left out. Rounds come to `callbacks`, as LightGBM's do."""

    def choosing(self, trainings: int) -> None:
        """Called before cross-validation chooses columns within queries, with its number of trainings."""

    def chosen(self, choice: Mapping[str, Any]) -> None:
        """Called with what it found."""

    def planned(self, plan: Plan) -> None:
        """Called once, before the first training."""

    def fold_ended(self, fold: int, member: Member, model: RankingModel) -> bool:
        """Called with each model of folds; return False to leave out the remaining folds.

        Args:
            fold: number of the fold that the model has not seen, from 0.
            member: how it was trained.
            model: the model.
        """
        return True


SILENT = Observer()
"""Watches nothing."""
