"""Report page that evaluates and explains a ranker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from os import PathLike
from pathlib import Path
from typing import Any

import numpy.typing as npt
from markupsafe import Markup

from boostrank.core.errors import BoostrankError, ParameterError
from boostrank.core.text import small_table
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.metrics import Metric
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.reporting.card import Card, card_of
from boostrank.reporting.difference import Opening, open_report
from boostrank.reporting.html import Chart, need_report_extra
from boostrank.reporting.rank_changes import Ranker, count_trees
from boostrank.reporting.result import plain
from boostrank.reporting.section import Context, PageSection, Section, page
from boostrank.reporting.sections import METRICS, SECTIONS


@dataclass(frozen=True, eq=False)
class Report:
    """Result of `report`. Each section is an attribute, such as `verdict`, which is None if the
    section has no result.

    Args:
        model, data: names of the model and of the data.
        about: description of the model.
        results: section results by name.
        missing: reason why a requested section has no result, by section name.
        ranker: the model.
        trees: number of trees of the baseline, if it is known.

    Raises:
        MissingDependency: without the extra `report`, from `sections`, `charts` and `to_html`;
            without pandas, from `frames`.
    """

    model: str
    data: str
    about: str
    results: Mapping[str, Any]
    missing: Mapping[str, str]
    ranker: RankingModel
    trees: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in SECTIONS.names():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.results.get(name)

    @property
    def opening(self) -> Opening | None:
        """The first line of the page, which needs the verdict: how good the model is, how sure, and
        at what cost.
        """
        verdict = self.verdict
        if verdict is None:
            return None
        baseline, trees = verdict.first_baseline.name, [count_trees(self.ranker), self.trees]
        return open_report(self.model, baseline, verdict.lead, trees)

    def __repr__(self) -> str:
        about = f"Report of {self.model} on {self.data or 'the data'}: {', '.join(self.results)}"
        if self.verdict is None:
            return about
        return "\n".join([str(self.opening), *self.verdict.meaning.values(), about])

    def _repr_html_(self) -> str:
        lines = [*repr(self).splitlines(), self.about]
        missing = [f"no {name}: {reason}" for name, reason in self.missing.items()]
        return small_table(f"Report of {self.model}", [("", line) for line in lines + missing])

    @cached_property
    def sections(self) -> tuple[PageSection, ...]:
        """The sections of the page."""
        need_report_extra()
        sections = []
        for section in on_page_order():
            if section.name in self.results:
                sections.append(section.on_page(self.results[section.name]))
            elif section.name in self.missing:
                absent = Markup("<p>Not available: {}.</p>").format(self.missing[section.name])
                sections.append(PageSection(section.name, section.title, absent))
        return tuple(sections)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """The charts on the page by name."""
        return {chart.name: chart for section in self.sections for chart in section.drawn}

    @cached_property
    def frames(self) -> dict[str, Any]:
        """The result tables as pandas data frames by name."""
        results = [self.results.get(section.name) for section in on_page_order()]
        tables = [table for result in results if result is not None for table in result.tables()]
        return {table.name: table.to_frame() for table in tables if len(table)}

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        data_name = Markup(" on <bdi>{}</bdi>").format(self.data) if self.data else ""
        summary = Markup('<p class="faint">{}{}.</p>').format(self.about, data_name)
        return page(f"Report on {self.model}", self.sections, self.opening, summary=summary)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON data, without values per query. Undefined numbers are None."""
        content: dict[str, Any] = {"model": self.model, "data": self.data, "about": self.about}
        content |= {section.name: self.results.get(section.name) for section in on_page_order()}
        return dict(plain(content | {"missing": self.missing}))

    def card(self, license: str | None = None) -> Card:
        """Return a model card, which needs the verdict.

        Args:
            license: identifier of the model's license, such as "mit".
        """
        return card_of(self.ranker, Path(self.model).name, self.data, self.verdict, license)


def report(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    metrics: Metric | str | Iterable[Metric | str] = METRICS,
    *,
    baseline: RankingModel | Ranker | str | PathLike[str] | npt.ArrayLike | None = None,
    baseline_name: str | None = None,
    only: Sequence[str] | str | None = None,
    name: str | None = None,
    data_name: str | None = None,
    **options: Any,
) -> Report:
    """Evaluate and explain a ranker on held-out data.

    Args:
        model: a model, booster or fitted ranker from boostrank, LightGBM or XGBoost, or its file.
        data: N labelled documents that the model has not seen, with its features.
        metrics: metrics in the verdict. Other sections use the first metric at its largest cut-off.
        baseline: model to compare with, or its scores, float[N] in input order.
        only: names of the sections to include, or None for all sections that apply.
        name, baseline_name, data_name: names shown on the page, or None for the file names.
        options: fields of `boostrank.reporting.section.Context`: conventions, segments,
            documents, matters, clicks, propensities, seed, threads, progress.

    Raises:
        ParameterError: an unknown metric, convention or section, or a number out of range.
        DataError: features other than the model's.
        BoostrankError: the first section's error, if no section has a result.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> page = boostrank.report(model, data, "ndcg@5", only=["verdict"], threads=1)
        >>> page.verdict is not None, page.missing
        (True, {})
    """
    data = as_dataset(data)
    if data_name is None:
        data_name = ", ".join(data.provenance.files)
    original = ranker = as_model(model)
    previous = trees = None
    if baseline is not None:
        baseline_ranker = Ranker.from_source(baseline, "baseline", data, options.get("threads"))
        shown_name = baseline_name or _name_of(baseline, "the previous model")
        previous, trees = (shown_name, baseline_ranker.scores), baseline_ranker.trees
    ranker, data = ranker.over_columns(data)
    context = Context(ranker, data, metrics, previous, **options)

    # Choose the requested sections, or all sections that apply to the model and its data.
    sections = [section for section in SECTIONS if section.applies(context)]
    if only is not None:
        names = [only] if isinstance(only, str) else only
        sections = [SECTIONS.get(section) for section in names]
    by_name = {section.name: section for section in sections}
    # Run each section after the sections whose results it uses.
    runs_after = {
        section.name: [earlier for earlier in section.after if earlier in by_name]
        for section in sections
    }
    errors: dict[str, BoostrankError] = {}
    for section in TopologicalSorter(runs_after).static_order():
        try:
            context.results[section] = by_name[section].run(context)
        except ParameterError:
            raise
        except BoostrankError as error:  # a page without one section is better than none
            errors[section] = error
    if errors and not context.results:
        raise next(iter(errors.values()))
    return Report(
        name or _name_of(model, "the model"),
        data_name,
        about=_about(ranker, data),
        results=context.results,
        missing={section: str(error) for section, error in errors.items()},
        ranker=original,
        trees=trees,
    )


def _name_of(model: Any, otherwise: str) -> str:
    return os.fspath(model) if isinstance(model, str | PathLike) else otherwise


def _about(model: RankingModel, data: RankingDataset) -> str:
    """Describe the model and the data."""
    name = model.info.objective_name
    origin = f", trained with {name}" if name else ""
    if model.info.averaged:
        origin = f", the average of {len(model.info.averaged)} models"
    about = (
        f"{model.backend}{origin}, {model._size}, {model.n_features:,} features; "
        f"{len(data.queries):,} queries of {data.n_documents:,} documents"
    )
    if model.info.gain is not None or data.gain is not None:
        about += (
            f"; trained on the gain {model.info.gain or 'of labels'} and measured by"
            f" {data.gain or 'labels'}"
        )
    if "clicks" in data.provenance.options:
        about += "; measured by clicks over exposure instead of labels"
    return about


def on_page_order() -> list[Section]:
    """Return all sections in page order."""
    return sorted(SECTIONS, key=lambda section: section.position)
