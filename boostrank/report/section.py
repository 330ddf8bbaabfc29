"""Sections of a report: what one declares, and what its analysis works on."""

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
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.report.html.markup import Markup
from boostrank.report.html.page import PageSection, Part
from boostrank.report.means import NEGLIGIBLE
from boostrank.report.scoring import Progress
from boostrank.report.start import start_scores


@dataclass(eq=False)
class Context:
    """What the analyses of a report work on; see `boostrank.report.report`.

    Args:
        model: the ranker.
        data: in the order of the model's features.
        metrics: measured in the verdict; the headline
        metric: is what everything else is about.
        conventions: of the metrics.
        previous: name and scores, float[N], of the baseline.
        segments, groups, documents, matters, docnos, seed, threads, progress: as given to `report`.
        clicks, propensities: as given to `report`.
        results: of the sections that ran before: name -> result.
    """

    model: RankingModel
    data: RankingDataset
    metrics: Sequence[Metric | str]
    metric: str
    conventions: Conventions
    previous: tuple[str, npt.ArrayLike] | None
    segments: Mapping[Any, Any] | str | PathLike[str] | None
    groups: Mapping[str, Sequence[str]] | None
    documents: int | None
    matters: Mapping[str, float]
    docnos: Sequence[str] | None
    seed: int
    threads: int | None
    progress: Progress | None
    clicks: ClickLog | None = None
    propensities: AnyPropensities | None = None
    results: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def scores(self) -> Float64Array:
        """float64[N] of the model, in the order of the data set's rows; of a result that has them (`scores`), if any:
        for 1,000,000 documents and 400 trees that spares 40 s."""
        for result in self.results.values():
            known: Float64Array | None = getattr(result, "scores", None)
            if known is not None:
                return known
        return self.data.in_row_order(self.model.predict(self.data, threads=self.threads))

    @cached_property
    def start(self) -> Float64Array | None:
        """float64[N] of the linear ranker that the trees begin with, likewise; None: there is none."""
        return start_scores(self.model, self.data, self.threads)

    @property
    def negligible(self) -> float:
        """The difference of the headline metric that does not matter."""
        return self.matters.get(self.metric) or NEGLIGIBLE


@dataclass(frozen=True)
class Section:
    """A section of the report, the `SPEC` of a module in `boostrank.report.sections` or of the module `page` of a
    folder there.

    Args:
        name: of the module or folder; also of the result in `Report`, in its `to_dict`, and on the command line.
        title: its heading on the page.
        run: the analysis; its result has `to_dict()`. A BoostrankError leaves the section out, and says why.
        draw: the result as parts of a page.
        frames: the result as pandas data frames by name.
        brief: what it comes to, in a sentence or two, for the top of the page.
        place: on the page, ascending.
        after: sections that run before it where they are asked for; it finds their results in the context.
        short: what the navigation says; "" for the title.
        applies: whether there is anything to ask of a model; of others the page says nothing, unless `only` names it.
        needs_clicks: whether it is about a click log; without one the page says as little.
    """

    name: str
    title: str
    run: Callable[[Context], Any]
    draw: Callable[[Any], Sequence[Part]]
    frames: Callable[[Any], Mapping[str, Any]] = lambda result: {}
    brief: Callable[[Any], Markup | str] = lambda result: ""
    place: int = 100
    after: tuple[str, ...] = ()
    short: str = ""
    aliases: tuple[str, ...] = ()
    applies: Callable[[RankingModel], bool] = lambda model: True
    needs_clicks: bool = False

    def on_page(self, result: Any) -> PageSection:
        """The section of a page that shows a result."""
        return PageSection(self.name, self.title, self.draw(result), self.short, self.brief(result))
