"""Verdict on a ranker: metrics with intervals, beside rankings that cost nothing and a model from before.

    found = verdict(model, data)
    found.to_frame()

Every ranking is measured on the same queries, so the model's lead over it is that of pairs. The best single feature is
chosen without looking at the queries that it is measured on: one half of the queries chooses for the other one, and
the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError
from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import headline
from boostrank.metric import BoundMetrics, Metric
from boostrank.report.conventions.analysis import TieReport, tied_documents
from boostrank.report.frames import pandas
from boostrank.report.means import NEGLIGIBLE, amount_with_interval, means_over_queries
from boostrank.report.scoring import Progress
from boostrank.report.sections import METRICS
from boostrank.report.sections.verdict.single_feature import single_feature
from boostrank.report.start import START

MODEL, SINGLE = "the model", "the best single feature"
RANDOM, FILE_ORDER = "random order", "the order of the file"


@dataclass(frozen=True)
class Standing:
    """One metric of one ranking.

    Args:
        metric: such as "ndcg@10".
        value, low, high: mean over queries and its 95% interval.
        lead, lead_low, lead_high: the mean of model minus this, query by query, and its interval; NaN for the model.
        queries: how many count.
    """

    metric: str
    value: float
    low: float
    high: float
    lead: float
    lead_low: float
    lead_high: float
    queries: int


@dataclass(frozen=True)
class Ranking:
    """The model or what it is measured against.

    Args:
        name: such as "random order".
        about: how it ranks.
        standings: metric -> standing.
        short: the same in a few words; empty where the name says it.
    """

    name: str
    about: str
    standings: Mapping[str, Standing]
    short: str = ""


@dataclass(frozen=True, eq=False)
class Verdict:
    """How good a ranker is.

    Args:
        metric: the headline: of the first metric asked for, the one with the largest cut-off.
        model: the ranker.
        baselines: what it is measured against.
        ties: what equal scores leave open in the headline metric.
        conventions: what the metrics' definitions leave open.
        per_query: metric -> float64[Q] of the model, NaN where a query does not count.
        queries, documents: in the data.
        empty: queries without a relevant document, which do not count unless the conventions say so.
        notes: what is missing, and why.
        matters: metric -> the difference of two trainings from which on it is more than luck, where it was measured.
    """

    metric: str
    model: Ranking
    baselines: tuple[Ranking, ...]
    ties: TieReport
    conventions: Conventions
    per_query: Mapping[str, Float64Array]
    queries: int
    documents: int
    empty: int
    notes: tuple[str, ...] = ()
    matters: Mapping[str, float] = field(default_factory=dict)

    @property
    def headline(self) -> Standing:
        """The model's headline metric."""
        return self.model.standings[self.metric]

    def direction(self, standing: Standing) -> str:
        """ "better" or "worse", as the model is; "even" where chance or luck in training explains the lead."""
        unsure = not (standing.lead_low > 0.0 or standing.lead_high < 0.0)
        if unsure or abs(standing.lead) < self.matters.get(standing.metric, 0.0):
            return "even"
        return "better" if standing.lead > 0.0 else "worse"

    def why_even(self, standing: Standing) -> str:
        """What explains a lead that is "even"."""
        significant = standing.lead_low > 0.0 or standing.lead_high < 0.0
        return "within the noise of training" if significant else "not significant"

    def matters_sentence(self) -> str:
        """What the noise says, if it was measured."""
        known = {name: self.matters[name] for name in self.model.standings if name in self.matters}
        if not known:
            return ""
        bounds = ", ".join(f"{bound:.4f} in {name}" for name, bound in known.items())
        return f"Two trainings may differ by luck by up to {bounds}: leads below that are grey."

    def trees_sentence(self) -> str:
        """What the trees add to the linear start; of a model without one, whether it beats a random order."""
        base = self.baseline(START) or self.baseline(RANDOM)
        if base is None:
            return ""
        standing, trees = base.standings[self.metric], base.name == START
        amount = amount_with_interval(standing.lead, standing.lead_low, standing.lead_high)
        side = "above" if standing.lead >= 0.0 else "below"
        direction, even = self.direction(standing), self.why_even(standing)
        if not trees:
            sure = f", {even}" if direction == "even" else ""
            words = f"The model is not shown to beat a random order: it is {amount} {side} it{sure}."
            return "" if direction == "better" else words
        bound = self.matters.get(self.metric) or NEGLIGIBLE
        if -bound <= standing.lead_low and standing.lead_high <= bound:
            return f"The trees add nothing that matters: the model is {amount} {side} {START}."
        if direction == "better":
            return f"The trees add {amount} to {START}."
        if direction == "worse":
            return f"The trees do harm: the model is {amount} below {START}."
        what = "Whether the trees add anything is uncertain"
        if standing.lead_high <= bound:
            what = "The trees add nothing that matters, and may do harm"
        return f"{what}: the model is {amount} {side} {START}, {even}."

    def baseline(self, name: str) -> Ranking | None:
        """The one of this name."""
        return next((b for b in self.baselines if b.name == name), None)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each ranking and metric."""
        return [{"ranking": r.name} | asdict(s) for r in (self.model, *self.baselines) for s in r.standings.values()]

    def to_frame(self) -> Any:
        """The same as a pandas data frame.

        Raises:
            MissingDependency: there is no pandas.
        """
        return pandas().DataFrame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-query values, as plain data."""
        return {
            "metric": self.metric,
            "rankings": [
                {"name": r.name, "about": r.about, "metrics": {m: asdict(s) for m, s in r.standings.items()}}
                for r in (self.model, *self.baselines)
            ],
            "ties": asdict(self.ties) | {"mass": self.ties.mass, "worth": self.ties.worth},
            "conventions": self.conventions.describe(), "queries": self.queries, "documents": self.documents,
            "queries without a relevant document": self.empty, "notes": list(self.notes), "matters": dict(self.matters),
        }  # fmt: skip


def verdict(
    scores: npt.ArrayLike,
    data: RankingDataset,
    metrics: Metric | str | Iterable[Metric | str] = METRICS,
    *,
    conventions: Conventions | str = "default",
    previous: tuple[str, npt.ArrayLike] | None = None,
    start: Float64Array | None = None,
    docnos: Sequence[str] | None = None,
    matters: Mapping[str, float] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Measure a ranker and what it is to be measured against.

    Args:
        scores: float[N], of the model, in the order of the rows of the data set.
        data: labelled queries that the model was not trained on.
        metrics: one or several.
        conventions, threads, progress: as for `boostrank.report.report`.
        previous: another model's name and scores, float[N].
        start: float64[N] of what the trees begin with; None: they begin with nothing.
        docnos: names of the documents, for ties="docno".
        matters: see `Verdict`; `report.noise.analysis` measures it.
        seed: of the bootstrap, and of the halves that choose a feature for each other.

    Raises:
        ParameterError: no metric, an unknown one.
        DataError: scores that do not fit the data, labels the gain cannot take, no query that counts.
    """
    rules = Conventions.of(conventions).over(data.labels)
    asked = Metric.all_of(metrics)
    bound = BoundMetrics(asked, data.labels, data.queries, rules, threads, docnos=docnos)
    first = headline(bound.names)
    if first is None:
        raise ParameterError("no metric to measure by: name one, such as ndcg@10")
    own = bound.per_query(scores)
    notes: list[str] = []
    rankings: list[tuple[str, str, dict[str, Float64Array]]] = []
    if previous is not None:
        rankings.append((previous[0], "a model from before", bound.per_query(previous[1])))
    if start is not None:
        rankings.append((START, "the model without its trees: what these begin with", bound.per_query(start)))
    chosen = single_feature(data, first, rules, seed=seed, threads=threads, progress=progress)
    if chosen is None:
        notes.append("No feature could be chosen on one half of the queries for the other: too few queries count.")
    else:
        rankings.append((SINGLE, chosen.about, bound.per_query(chosen.scores)))
    # Documents that all tie are in random order to a metric that takes the mean over the orders of tied ones.
    even = BoundMetrics(asked, data.labels, data.queries, replace(rules, ties="expected"), threads)
    by_chance = even.per_query(np.zeros(data.n_documents))
    rankings.append((RANDOM, "the exact mean over all orders of each list", by_chance))
    place = np.arange(data.n_documents) - np.repeat(data.queries.ptr[:-1], data.queries.sizes)
    rankings.append(
        (FILE_ORDER, "the rows of each query as they come in the data", bound.per_query(-place.astype(float)))
    )
    standings = _standings(bound.names, [own, *(values for _, _, values in rankings)], data, seed)
    counted = standings[0][first].queries
    if counted < len(data.queries) and rules.empty_for(first.partition("@")[0]) == "exclude":
        notes.append(f"{len(data.queries) - counted:,} of {len(data.queries):,} queries do not count in {first}.")
    family = Metric.parse(first)
    where_relevant = replace(rules, ties="expected", empty="exclude", empty_of=(), single="count")
    bound_there = BoundMetrics([family], data.labels, data.queries, where_relevant, threads, partial=True)
    empty = bound_there.per_query(scores)[first]
    baselines = tuple(
        Ranking(name, about, standing, chosen.short if chosen is not None and name == SINGLE else "")
        for (name, about, _), standing in zip(rankings, standings[1:], strict=True)
    )
    tied = tied_documents(data.labels, scores, data.queries, score_type=rules.score_type)
    ties = TieReport.of(
        data.n_documents, tied, rules, first,
        lambda of: BoundMetrics([family], data.labels, data.queries, of, threads).values(scores),
    )  # fmt: skip
    return Verdict(
        first, Ranking(MODEL, "", standings[0]), baselines, ties, rules, own, queries=len(data.queries),
        documents=data.n_documents, empty=int(np.isnan(empty).sum()), notes=tuple(notes), matters=dict(matters or {}),
    )  # fmt: skip


def _standings(
    names: Sequence[str], rankings: Sequence[Mapping[str, Float64Array]], data: RankingDataset, seed: int
) -> list[dict[str, Standing]]:
    """Of each ranking, whose first one is the model."""
    values = [r[name] for r in rankings for name in names]
    leads = [rankings[0][name] - r[name] for r in rankings[1:] for name in names]
    weights = data.queries.each_weight
    found = means_over_queries(np.column_stack(values), weights, seed=seed)
    differences = means_over_queries(np.column_stack(leads), weights, seed=seed, resamples=PAIRED_RESAMPLES)
    ends, of_leads = (np.column_stack([f.mean, f.low, f.high]).tolist() for f in (found, differences))
    no_leads = [[math.nan] * 3] * len(names)
    standings = [
        Standing(name, own[0], own[1], own[2], lead[0], lead[1], lead[2], queries)
        for name, own, lead, queries in zip(
            [*names] * len(rankings), ends, [*no_leads, *of_leads], found.queries.tolist(), strict=True
        )
    ]
    return [{s.metric: s for s in standings[i : i + len(names)]} for i in range(0, len(values), len(names))]
