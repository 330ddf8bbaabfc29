"""Comparison between a ranker debiased by propensities and one of click counts, using clicks on held-out queries."""

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
from boostrank.fit.params import STOPPING_NAMES
from boostrank.fit.train import fit, resolve
from boostrank.options import TrainOptions

_ROUNDS = 100
_SAMPLED_CELLS = 1 << 25  # numbers sampled from streamed rows
_FEW = 20  # minimum number of held-out queries


def copied_rows(valid: Sequence[str]) -> float:
    """Return the number of copies of the training rows that the gate holds in memory.

    The copies contain all documents shown, the documents for training, and both sides of the held-out queries, if any.
    """
    return 2.0 if valid else 3.0 - 1.0 / FOLDS


def tell_gate(found: ClickTraining, options: TrainOptions, rounds: int, *, estimated: bool) -> None:
    """Train with and without propensities, and report which ranker the clicks on held-out queries prefer.

    Args:
        estimated: whether the propensities were estimated from these clicks.
    """
    data, log, sampled, tell = found.clicks.data, found.clicks.log, "", found.tell
    if data.on_disk:
        data, log = log.of_queries(data, data.queries.sample(_SAMPLED_CELLS // max(1, data.n_features), 0))
        if len(data.queries) < len(found.clicks.data.queries):
            sampled = f", from a sample of {len(data.queries):,} queries, as the rows stay on disk"
    turns = held_out(len(data.queries))
    where, count = "queries held out for this", sum(part.size for _, part in turns)
    if found.held:
        where, count = "the first --valid file", len(found.held[0].data.queries)
    elif len(turns) > 1:
        where = f"queries held out in {FOLDS} turns"
    if count < _FEW:
        tell(f"no gate: {count} held-out queries are too few for a comparison")
        return
    rounds = min(rounds, _ROUNDS)
    plain = {name: value for name, value in options.params.items() if name not in STOPPING_NAMES}
    single = replace(options.single, rounds=rounds, early_stopping=None, params=plain)
    judged, own = [], True
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the main training repeats them
            for rest, judging in turns[:1] if found.held else turns:
                part, clicked, curve = data, log, found.clicks.propensities
                if found.held:
                    held, held_log = found.held[0].data, found.held[0].log
                else:
                    held, held_log = log.of_queries(data, judging)
                    part, clicked = log.of_queries(data, rest)
                    if estimated:  # use the training clicks only
                        curve = estimate_propensities(clicked, queries_of(part))
                naive, debiased = (  # one copy of the rows at a time
                    fit(resolve(single, clicked.training_set(part, one, found.prior))).predict(held)
                    for one in (None, curve)
                )
                judge, theirs = judging_propensities(held_log, queries_of(held), curve)
                judged.append(Judged(held, held_log, judge, naive, debiased))
                own = own and theirs
            verdict = gate(*judged)
    except (DataError, NothingToLearn) as error:  # click counts may be constant where gains are not
        tell(f"no gate: {error}")
        return
    whose = "propensities of their own" if own else "the training propensities"
    tell(f"debiased against click counts, single trainings, on {where}{sampled}, by {whose}: {verdict}")
    if not found.clicks.holds:
        tell("this comparison is not reliable, as clicks contradict the training propensities")
    elif verdict.difference.high < 0.0:
        tell("DEBIASING HURTS HERE: clicks on held-out queries prefer the ranker trained on click counts")
    elif verdict.difference.low <= 0.0:
        tell("no clear difference: these clicks do not show whether debiasing helps")
