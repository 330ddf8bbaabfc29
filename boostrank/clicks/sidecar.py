"""Clicks on the documents in a data file, from a sidecar log, and position propensities."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from boostrank.clicks.estimation import check_propensities, estimate_propensities
from boostrank.clicks.gate import moved_share, shown_at_the_top, with_click_gains
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.clicks.tables import read_clicks
from boostrank.core.errors import DataError, InputError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.files.side_files import find_sidecar
from boostrank.options import ReadOptions

Tell = Callable[[str], None]
"""A function that prints a line for the user."""
ENDING = ".clicks"


def check_click_files(files: Sequence[str], reading: ReadOptions, *, logs: bool = True) -> None:
    """Check the options and the paths of files whose clicks will be used, and their `logs`."""
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip cannot be used with clicks, because click logs count all rows of"
            " the file"
        )
    for path in files:
        if path == "-" or not os.path.isfile(path):
            raise InputError(f"--clicks: {path} is not a file, so it has no {ENDING} sidecar file")
        if logs:
            log_of(path)


def log_of(path: str) -> str:
    """Return the path of a file's click log."""
    sidecar = find_sidecar(path, (ENDING,))
    if sidecar is None:
        raise InputError(f"{path}{ENDING}: no such file, but --clicks needs it")
    return sidecar


@dataclass(frozen=True)
class Clicks:
    """The documents in a file and their clicks.

    Args:
        name: path of the log, quoted for a shell.
        holds: whether the clicks agree with the propensities.
    """

    data: RankingDataset
    log: ClickLog
    name: str
    propensities: Propensities
    holds: bool

    @classmethod
    def read(
        cls, path: str, data: RankingDataset, propensities: str | Propensities | None, tell: Tell
    ) -> Clicks:
        """Read the clicks on a file's documents from its sidecar log.

        Args:
            propensities: propensities, or a file with propensities that are tested against the
                clicks. None estimates them.
        """
        log_path = log_of(path)
        holds = True
        log = read_clicks(log_path, data.n_documents)
        name = shlex.quote(log_path)
        tell(f"{name}: {log!r}")
        if propensities is None:
            propensities = estimate_propensities(log, queries_of(data))
            tell(
                f"{name}: propensities from {propensities.moved:,} documents that moved:"
                f" {propensities!r}"
            )
        elif isinstance(propensities, str):
            # Test the propensities of a file, which may lack the positions with clicks.
            file, propensities = propensities, Propensities.read(propensities)
            try:
                check = check_propensities(log, propensities, queries_of(data))
                holds = check.p >= 0.05
            except InputError as error:
                tell(f"{file}: these propensities cannot be checked with {name}: {error}")
            if not holds:
                tell(
                    f"{file}: clicks contradict these propensities ({check.nats:.0f} nats, p"
                    f" {check.p:.2g}): estimate them with `boostrank data propensities {name}`, or"
                    " leave out --propensities"
                )
        return cls(data, log, name, propensities, holds)

    def judged(self, data: RankingDataset) -> RankingDataset:
        """Label the documents of a data set that has the same rows with clicks over exposure, to
        compare rankers.
        """
        return with_click_gains(data, self.log, self.propensities)

    def describe_reliability(self, data: RankingDataset, scores: Any, top: int) -> str:
        """Describe the reliability of a comparison."""
        share = np.mean(shown_at_the_top(data, self.log, scores, top))
        return (
            f"by clicks: {share:.0%} of the new top {top} was ever shown, and the rest counts as"
            f" not clicked; {moved_share(self.log):.0%} of the clicked documents moved"
        )


def queries_of(data: RankingDataset) -> QueryIndex | None:
    """Return the queries of a data set, or None if its rows were reordered."""
    return data.queries if data.input_rows is None else None


@dataclass(frozen=True)
class ClickTraining:
    """Training data with clicks over exposure as labels, and validation data with clicks.

    Args:
        prior: see `ClickLog.gains`.
        tell: function that prints a line for the user.
        validation: clicks in the validation files that were read so far.
    """

    clicks: Clicks
    prior: float
    tell: Tell
    validation: list[Clicks] = field(default_factory=list)

    def label(self, path: str, data: RankingDataset, learnt: bool) -> RankingDataset:
        """Label a validation file with clicks over exposure.

        Args:
            learnt: whether models also train on this file, in folds, which requires documents that
                were shown.
        """
        clicks = Clicks.read(path, data, self.clicks.propensities, self.tell)
        self.validation.append(clicks)
        if learnt:
            return clicks.log.training_set(data, clicks.propensities, self.prior)
        try:
            return clicks.judged(data)
        except DataError as error:
            raise InputError(f"{clicks.name}: {error}") from None
