"""Comparison between a ranker debiased by propensities and one of click counts, using clicks on
held-out queries.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

from boostrank.clicks.estimation import estimate_propensities
from boostrank.clicks.gate import FOLDS, Judged, gate, held_out, judging_propensities
from boostrank.clicks.sidecar import ClickTraining, queries_of
from boostrank.core.errors import DataError, NothingToLearn
from boostrank.fit.execute import execute
from boostrank.fit.resolve import resolve
from boostrank.fit.settings import ROUNDS_NAMES, STOPPING_NAMES
from boostrank.options import TrainOptions

_ROUNDS = 100
_SAMPLED_CELLS = 1 << 25  # numbers sampled from streamed rows
_FEW = 20  # minimum number of held-out queries


def count_copies(valid: Sequence[str]) -> float:
    """Return the number of copies of the training rows that the gate holds in memory.

    The copies contain all documents shown, the documents for training, and both sides of the
    held-out queries, if any.
    """
    return 2.0 if valid else 3.0 - 1.0 / FOLDS


def report_gate(
    clicked: ClickTraining, options: TrainOptions, rounds: int, *, estimated: bool
) -> None:
    """Train with and without propensities, and report which ranker the clicks on held-out queries
    prefer.

    Args:
        estimated: whether the propensities were estimated from these clicks.
    """
    clicks, say, sampled = clicked.clicks, clicked.tell, ""
    data, log = clicks.data, clicks.log
    if data.on_disk:
        sample = data.queries.sample(_SAMPLED_CELLS // max(1, data.n_features), 0)
        data, log = log.of_queries(data, sample)
        if len(data.queries) < len(clicks.data.queries):
            sampled = f", from a sample of {len(data.queries):,} queries, as the rows stay on disk"
    turns = held_out(len(data.queries))
    source = f"queries held out in {len(turns)} turn{'s' * (len(turns) > 1)}"
    count = sum(part.size for _, part in turns)
    if clicked.validation:
        source, count = "the first --valid file", len(clicked.validation[0].data.queries)
        turns = turns[:1]
    if count < _FEW:
        say(f"no gate: {count} held-out queries are too few for a comparison")
        return
    plain = {
        name: value
        for name, value in options.params.items()
        if name not in {*STOPPING_NAMES, *ROUNDS_NAMES}
    }
    single = replace(options.single, rounds=min(rounds, _ROUNDS), early_stopping=None, params=plain)
    # Score the held-out queries of each turn by rankers trained without and with propensities.
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the main training repeats them
            judged, independent = [], []
            for training_queries, judging_queries in turns:
                part, clicks_of_part, curve = data, log, clicks.propensities
                if clicked.validation:
                    judging_set, judging_log = clicked.validation[0].data, clicked.validation[0].log
                else:
                    judging_set, judging_log = log.of_queries(data, judging_queries)
                    part, clicks_of_part = log.of_queries(data, training_queries)
                    if estimated:  # use the training clicks only
                        curve = estimate_propensities(clicks_of_part, queries_of(part))
                scores = []
                for propensities in (None, curve):  # one copy of the rows at a time
                    train_set = clicks_of_part.training_set(part, propensities, clicked.prior)
                    scores.append(execute(resolve(single, train_set)).predict(judging_set))
                judge, is_independent = judging_propensities(
                    judging_log, queries_of(judging_set), curve
                )
                judged.append(Judged(judging_set, judging_log, judge, *scores))
                independent.append(is_independent)
            verdict = gate(*judged)
    except (DataError, NothingToLearn) as error:  # click counts may be constant where gains are not
        say(f"no gate: {error}")
        return
    # Report which of them the clicks prefer.
    judges = "the training propensities"
    if all(independent):
        judges = "propensities of their own"
    say(
        f"debiased against click counts, single trainings, on {source}{sampled}, by {judges}:"
        f" {verdict}"
    )
    if not clicks.holds:
        say("this comparison is not reliable, as clicks contradict the training propensities")
    elif verdict.difference.high < 0.0:
        say(
            "DEBIASING HURTS HERE: clicks on held-out queries prefer the ranker trained on click"
            " counts"
        )
    elif verdict.difference.low <= 0.0:
        say("no clear difference: these clicks do not show whether debiasing helps")
