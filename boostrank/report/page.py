"""Report: everything about a ranker on one page, from what it is worth to where it fails.

found = report(model, data)
found.to_html(), found.frames["worst queries"], found.charts["learning-prefixes"].to_svg()
found.save("folder")
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities
from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.core.files import write_atomically
from boostrank.core.text import small_table
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import headline
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.records import jsonable
from boostrank.report.html.charts import Chart, svgs_of
from boostrank.report.html.markup import bdi, tag
from boostrank.report.html.page import PageSection, drawn_in, page
from boostrank.report.html.tables import Table
from boostrank.report.html.vega import need_report_extra
from boostrank.report.section import Context, Section
from boostrank.report.sections import METRICS, SECTIONS

if TYPE_CHECKING:
    import pandas as pd

    from boostrank.report.scoring import Progress


@dataclass(frozen=True, eq=False)
class Report:
    """What `report` found.

    Each result is an attribute of its section's name, such as `verdict`: None where it cannot be had.

    Args:
        model, data: what they are called.
        about: of the model, in words.
        results: section -> what it found.
        missing: section -> why there is nothing, of those that were asked for.
        unsuited: sections that such a model has nothing for, and that nobody asked for.

    Raises:
        MissingDependency: what draws (`sections`, `charts`, `tables`, `to_html`, `save`) without the extra `report`;
            `frames` without pandas.
    """

    model: str
    data: str
    about: str
    results: Mapping[str, Any]
    missing: Mapping[str, str]
    unsuited: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in SECTIONS.names():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.results.get(name)

    def _repr_html_(self) -> str:
        def state(name: str) -> str:
            return "there" if name in self.results else self.missing.get(name, "not asked for")

        rows = [(one.title, state(one.name)) for one in on_page_order() if one.name not in self.unsuited]
        return small_table(f"Report of {self.model} on {self.data}", [("model", self.about), *rows])

    @cached_property
    def sections(self) -> tuple[PageSection, ...]:
        """What the page shows."""
        need_report_extra()
        shown = []
        for section in on_page_order():
            if section.name in self.unsuited:
                continue
            reason = self.missing.get(section.name, "it was not asked for")
            absent = PageSection(section.name, section.title, [tag("p", f"Not available: {reason}.")])
            shown.append(section.on_page(self.results[section.name]) if section.name in self.results else absent)
        return tuple(shown)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """Name -> chart, which can be saved as a picture or as numbers."""
        return {part.name: part for section in self.sections for part in drawn_in(section.parts)
                if isinstance(part, Chart)}  # fmt: skip

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Name -> table of the page."""
        return {part.name: part for section in self.sections for part in drawn_in(section.parts)
                if isinstance(part, Table)}  # fmt: skip

    @cached_property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Name -> pandas data frame of what was found."""
        found = [section for section in on_page_order() if section.name in self.results]
        return {name: frame for section in found for name, frame in section.frames(self.results[section.name]).items()}

    def to_html(self) -> str:
        """One page that needs no network."""
        summary = [tag("p", self.about, *([" on ", bdi(self.data)] if self.data else []), ".", class_="faint")]
        return page(f"Report on {self.model}", self.sections, summary=summary, short_print=True)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the numbers of each query, for JSON: what is not a number is None."""
        results = {
            section.name: self.results[section.name].to_dict() if section.name in self.results else None
            for section in on_page_order()
        }
        names = {"model": self.model, "data": self.data, "about": self.about}
        return dict(jsonable(names | results | {"missing": self.missing}))

    def save(self, folder: str | PathLike[str]) -> list[Path]:
        """Write the page, every chart as a picture (SVG) with its numbers (CSV), and every frame as CSV.

        Args:
            folder: made if it is not there; files of these names in it are replaced, each whole or not at all.

        Returns:
            What was written.

        Raises:
            TrainingError: a file cannot be written, or what draws charts in the page cannot be made: the numbers are
                there then. Pictures that cannot be drawn are a warning.
        """
        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        written = []
        for name, chart in self.charts.items():
            written.append(into / f"{name}.csv")
            chart.save(written[-1])
        for name, frame in self.frames.items():
            written.append(into / f"{name}.csv")
            text = frame.to_csv(index=False, lineterminator="\n")
            write_atomically(written[-1], text.encode("utf-8", "backslashreplace"))
        written.insert(0, into / "report.html")
        write_atomically(written[0], self.to_html().encode("utf-8", "backslashreplace"))
        try:
            pictures = svgs_of(list(self.charts.values()))
        except TrainingError as error:
            warn_user(f"{os.fspath(folder)}: no pictures: {error}", DataWarning)
            for name in self.charts:  # of another report, saved here before
                (into / f"{name}.svg").unlink(missing_ok=True)
            return written
        for name, picture in zip(self.charts, pictures, strict=True):
            written.append(into / f"{name}.svg")
            write_atomically(written[-1], picture.encode())
        return written


def report(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    metrics: Metric | str | Iterable[Metric | str] = METRICS,
    *,
    conventions: Conventions | str = "default",
    baseline: RankingModel | str | PathLike[str] | npt.ArrayLike | None = None,
    baseline_name: str | None = None,
    segments: Mapping[Any, Any] | str | PathLike[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    documents: int | None = None,
    matters: Mapping[str, float] | None = None,
    docnos: Sequence[str] | None = None,
    clicks: ClickLog | None = None,
    propensities: AnyPropensities | None = None,
    only: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    name: str | None = None,
    data_name: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Study a ranker on data that it was not trained on.

    Args:
        model: ours, or one that LightGBM or XGBoost made; or its file.
        data: labelled queries.
        metrics: measured in the verdict; of the first one the largest cut-off is what everything else is about.
        conventions: of the metrics.
        baseline: another model, its file, or its scores, float[N], in the order in which the rows were given.
        baseline_name: what it is called.
        segments: query id -> segment, or a file of two columns; beside list length and best label.
        groups: name -> names of features that are shuffled together.
        documents: shuffle and walk a sample of whole queries with about so many documents; 0: all; None: as many as
            take about half a minute each on two cores.
        matters: metric -> the difference from which on two trainings differ by more than luck: smaller ones are grey.
        docnos: a name a row, "" where there is none. Under conventions that order tied documents by name, importance
            and learning take the mean over their orders.
        clicks: on the data, whose rows count the documents in the order in which they were given: a section on them.
            What is measured stays the labels; `boostrank.clicks.gate.with_click_gains` puts clicks in their place.
        propensities: of the positions; None: estimated from the clicks, or else what the model was trained with.
        only: the sections to work out, by their names in `SECTIONS`; None: all.
        skip: sections to leave out.
        name, data_name: what model and data are called; by default the model's file, and the files of the data.
        seed: of shuffles, samples and bootstrap.
        threads: None means every available core.
        progress: called as the work goes on.

    Raises:
        ParameterError: an unknown metric, convention or section, a number out of range.
        DataError: features that are not the model's; and where no section can be had, what is wrong.
    """
    wanted = on_page_order() if only is None else [SECTIONS.get(one) for one in only]
    unwanted = [SECTIONS.get(one).name for one in skip]
    called = name or (os.fspath(model) if isinstance(model, str | PathLike) else "the model")
    ranker = model if isinstance(model, RankingModel) else RankingModel.load(model)
    asked = Metric.all_of(metrics)
    first = headline([name for metric in asked for name in metric.names])
    if first is None:
        raise ParameterError("no metric to measure by: name one, such as ndcg@10")
    previous = _previous(baseline, baseline_name, data, threads)
    ranker, data = ranker.over_columns(data)
    context = Context(
        ranker, data, asked, first, Conventions.of(conventions), previous, segments, groups, documents,
        dict(matters or {}), docnos, seed, threads, progress, clicks, propensities,
    )  # fmt: skip
    errors: dict[str, BoostrankError] = {}
    named = set() if only is None else {section.name for section in wanted}
    suits = {one.name: one.applies(ranker) and (clicks is not None or not one.needs_clicks) for one in SECTIONS}
    unsuited = frozenset(name for name, found in suits.items() if not found) - named
    running = {section.name: section for section in wanted if section.name not in {*unwanted, *unsuited}}
    # Each after those whose results it uses.
    order = TopologicalSorter({name: [one for one in s.after if one in running] for name, s in running.items()})
    for section in order.static_order():
        try:
            context.results[section] = running[section].run(context)
        except ParameterError:
            raise
        except BoostrankError as error:  # a page without one of its sections is better than none
            errors[section] = error
    if errors and not context.results:
        raise next(iter(errors.values()))
    files = ", ".join(data.provenance.files)
    missing = {section: str(error) for section, error in errors.items()}
    about = (
        f"{ranker.backend}{_origin(ranker)}, {ranker.best_iteration:,} rounds, {ranker.n_features:,} features; "
        f"{len(data.queries):,} queries of {data.n_documents:,} documents"
    )
    if ranker.info.gain is not None or data.gain is not None:
        about += f"; trained on the gain {ranker.info.gain or 'of labels'}, measured by {data.gain or 'labels'}"
    if "clicks" in data.provenance.options:
        about += "; measured by clicks over exposure in place of labels"
    return Report(called, files if data_name is None else data_name, about, context.results, missing, unsuited)


def _origin(model: RankingModel) -> str:
    """What a model was trained with, or is the average of, after a comma; nothing where its file does not say."""
    if model.info.averaged:
        named = "; ".join(map(str, (model.info.folds or {}).get("members") or ()))
        return f", the average of {len(model.info.averaged)} models{f' ({named})' if named else ''}"
    objective: Any = model.info.get("objective") or {}
    parts = [objective[part].get("name") for part in ("first", "second") if isinstance(objective.get(part), Mapping)]
    name = f"a mixture of {' and '.join(map(str, parts))}" if parts else objective.get("name")
    return f", trained with {name}" if name else ""


def on_page_order() -> list[Section]:
    """All sections as they stand on the page."""
    return sorted(SECTIONS, key=lambda section: section.place)


def _previous(
    baseline: Any, name: str | None, data: RankingDataset, threads: int | None
) -> tuple[str, npt.ArrayLike] | None:
    if baseline is None:
        return None
    called = name or (os.fspath(baseline) if isinstance(baseline, str | PathLike) else "the previous model")
    model = RankingModel.load(baseline) if isinstance(baseline, str | PathLike) else baseline
    scores = model.predict(data, threads=threads) if isinstance(model, RankingModel) else np.asarray(model, np.float64)
    return called, data.in_row_order(scores)
