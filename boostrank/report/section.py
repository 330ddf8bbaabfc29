"""Sections of a report: what a section declares, and what its analysis gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy.typing as npt

from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities
from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import headline
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.report.html import PageSection, block
from boostrank.report.means import NEGLIGIBLE
from boostrank.report.scoring import Progress, silent, start_scores


@dataclass(eq=False)
class Context:
    """Input of the analyses of a report.

    Args:
        model: a `RankingModel`; None where only scores are compared.
        data: labelled queries that the model was not trained on, with its features.
        metrics: one or several, for the verdict. All other sections use one of them, `metric`: of the first, the
            largest cut-off.
        previous: name and scores, float[N] in the order of the data set's rows, of a model to compare with.
        conventions: of the metrics. Importance and learning average over the orders of tied documents instead of
            ordering them by name.
        segments: query id -> segment, or a file of two columns, besides list length and best label.
        groups: name -> features to shuffle together.
        documents: importance and learning work on a sample of whole queries with about this many documents; 0: on all;
            None: on as many as take about half a minute on two cores.
        matters: metric -> the difference that exceeds the noise of training; smaller differences are shown in grey.
        docnos: name of each row, "" for none.
        clicks: log on these data, whose rows count documents in input order; adds a section.
        propensities: of the positions; None: estimated from the clicks, or those that the model was trained with.
        seed: of shuffles, samples and bootstrap.
        threads: None means every available core.
        progress: called as the work goes on.
        results: section -> result, of the sections that ran before.

    Raises:
        ParameterError: an unknown metric or convention, or no metric.
    """

    model: Any
    data: RankingDataset
    metrics: Any
    previous: tuple[str, npt.ArrayLike] | None = None
    conventions: Conventions | str = "default"
    segments: Mapping[Any, Any] | str | PathLike[str] | None = None
    groups: Mapping[str, Sequence[str]] | None = None
    documents: int | None = None
    matters: Mapping[str, float] | None = None
    docnos: Sequence[str] | None = None
    clicks: ClickLog | None = None
    propensities: AnyPropensities | None = None
    seed: int = 0
    threads: int | None = None
    progress: Progress | None = None
    results: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = Metric.all_of(self.metrics)
        self.conventions = Conventions.of(self.conventions)
        first = headline([name for metric in self.metrics for name in metric.names])
        if first is None:
            raise ParameterError("no metric to measure by: name one, such as ndcg@10")
        self.metric = first

    @cached_property
    def rules(self) -> Conventions:
        """Conventions of the metrics, for the labels of the data."""
        return Conventions.of(self.conventions).over(self.data.labels)

    @cached_property
    def scores(self) -> Float64Array:
        """Scores of the model, float64[N] in the order of the data set's rows."""
        # Learning computes them on the way: for 1,000,000 documents and 400 trees that spares 40 s.
        for result in self.results.values():
            known: Float64Array | None = getattr(result, "scores", None)
            if known is not None:
                return known
        return self.data.in_row_order(self.model.predict(self.data, threads=self.threads))

    @cached_property
    def start(self) -> Float64Array | None:
        """Scores of the linear ranker that the trees begin with, likewise; None without one."""
        return start_scores(self.model, self.data, self.threads)

    @property
    def negligible(self) -> float:
        """Difference of the metric that does not matter."""
        return (self.matters or {}).get(self.metric) or NEGLIGIBLE

    @property
    def workers(self) -> int:
        """Number of threads."""
        return resolve_threads(self.threads)

    @property
    def say(self) -> Progress:
        """Progress, which may be silent."""
        return self.progress or silent


@dataclass(frozen=True)
class Section:
    """A section of the report: the `SPEC` of a module in `boostrank.report.sections`.

    Its template is `templates/NAME.html`, with the blocks `body` and, optionally, `brief`: one or two sentences for the
    top of the page. It knows the result as `found`, and the values of `parts`. `draw(chart, title, about)` and
    `table(name, rows, columns)` put charts and tables on the page. Without a template the values of `parts`, charts and
    tables, stand one below the other.

    Args:
        name: of the module, of the result in `Report` and its `to_dict`, and on the command line.
        title: heading on the page.
        run: analysis; its result has `to_dict()`. A BoostrankError leaves the section out and is shown in its place.
        parts: values for the template.
        frames: pandas data frames of the result, by name.
        place: on the page, ascending.
        after: sections that run before it, if at all; their results are in the context.
        short: name in the navigation; "" for the title.
        applies: whether a model has such a section; if not, the page is silent about it unless `only` names it.
        needs_clicks: whether it is about a click log; without one the page is silent about it, too.
    """

    name: str
    title: str
    run: Callable[[Context], Any]
    parts: Callable[[Any], Mapping[str, Any]]
    frames: Callable[[Any], Mapping[str, Any]] = lambda result: {}
    place: int = 100
    after: tuple[str, ...] = ()
    short: str = ""
    aliases: tuple[str, ...] = ()
    applies: Callable[[RankingModel], bool] = lambda model: True
    needs_clicks: bool = False

    def on_page(self, found: Any) -> PageSection:
        """Return the section of a page that shows a result."""
        drawn: list[Any] = []
        values = {"found": found, **self.parts(found)}
        body, brief = (
            block(f"{self.name}.html", name, drawn=drawn, parts=values, **values) for name in ("body", "brief")
        )
        return PageSection(self.name, self.title, body, self.short, brief, drawn)
