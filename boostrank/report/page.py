"""Everything about a ranker on one page: what it is worth, what it rests on, how it learnt, where it fails.

found = report(model, data)
found.to_html(), found.frames["worst queries"], found.charts["learning-prefixes"].to_svg()
found.save("folder")
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, ParameterError
from boostrank.core.jsonable import jsonable
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Metric
from boostrank.report.sections.importance.analysis import importance
from boostrank.report.sections.learning.analysis import Learning, learning
from boostrank.report.sections.queries.analysis import QueryValues, query_values
from boostrank.report.sections.shapes.analysis import Shapes, shapes
from boostrank.report.sections.verdict.analysis import METRICS, Verdict, verdict
from boostrank.training.model import RankingModel
from boostrank.training.params import headline

if TYPE_CHECKING:
    import pandas as pd

    from boostrank.report.html.charts import Chart
    from boostrank.report.html.page import Part, Section
    from boostrank.report.html.tables import Table
    from boostrank.report.sections.importance.result import Importance

SECTIONS = ("verdict", "importance", "shapes", "learning", "queries")
"""In the order of the page."""

_TITLES = {
    "verdict": "Verdict", "importance": "Feature importance", "shapes": "Shapes", "learning": "Learning",
    "queries": "Queries",
}  # fmt: skip
_NEGLIGIBLE = 0.001

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Report:
    """What `report` found.

    Args:
        model, data: what they are called.
        about: of the model, in words.
        verdict, importance, shapes, learning, queries: each part by itself; None where it cannot be had, and then
        missing: section -> why.
    """

    model: str
    data: str
    about: str
    verdict: Verdict | None
    importance: Importance | None
    shapes: Shapes | None
    learning: Learning | None
    queries: QueryValues | None
    missing: Mapping[str, str]

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """What the page shows.

        Raises:
            MissingDependency: the extra `report` is not installed.
        """
        from boostrank.report.html.charts import need_report_extra
        from boostrank.report.html.page import Section

        need_report_extra()
        drawn = []
        for name in SECTIONS:
            found = getattr(self, name)
            if found is None:
                why = f"This cannot be told: {self.missing.get(name, 'it was not asked for')}."
                drawn.append(Section(name, _TITLES[name], [why]))
            else:
                drawn.append(import_module(f"boostrank.report.sections.{name}.page").section(found))
        return tuple(drawn)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """Name -> chart, which can be saved as a picture or as numbers."""
        from boostrank.report.html.charts import Chart

        return {part.name: part for part in _flat(self.sections) if isinstance(part, Chart)}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Name -> table of the page."""
        from boostrank.report.html.tables import Table

        return {part.name: part for part in _flat(self.sections) if isinstance(part, Table)}

    @cached_property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Name -> pandas data frame of what was found.

        Raises:
            MissingDependency: there is no pandas.
        """
        frames: dict[str, Any] = {}
        if self.verdict is not None:
            frames["verdict"] = self.verdict.to_frame()
        if self.importance is not None:
            frames["importance"] = self.importance.to_frame()
        if self.shapes is not None:
            frames |= {name: self.shapes.to_frame(name) for name in ("curves", "dependence", "interactions")}
        if self.learning is not None:
            frames |= {"history": self.learning.history_frame(), "prefixes": self.learning.curve.to_frame()}
            if self.learning.descent is not None:
                frames["objective"] = self.learning.descent.to_frame()
                frames["gradient"] = self.learning.descent.shares_frame()
        if self.queries is not None:
            frames |= {"queries": self.queries.to_frame(), "parts": self.queries.parts_frame()}
        return frames

    def to_html(self) -> str:
        """One page that needs no network.

        Raises:
            MissingDependency: the extra `report` is not installed.
        """
        from boostrank.report.html.markup import bdi, tag
        from boostrank.report.html.page import page

        of = [tag("p", self.about, *([" on ", bdi(self.data)] if self.data else []), ".", class_="faint")]
        return page(f"Report on {self.model}", self.sections, summary=of)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the numbers of each query, for JSON: what is not a number is None."""
        told: dict[str, Any] = {"model": self.model, "data": self.data, "about": self.about}
        for name in SECTIONS:
            found = getattr(self, name)
            told[name] = None if found is None else _told(found)
        plain: dict[str, Any] = jsonable(told | {"missing": dict(self.missing)})
        return plain

    def save(self, folder: str | PathLike[str]) -> list[Path]:
        """Write the page, every chart as a picture (SVG) with its numbers (CSV), and every frame as CSV.

        Args:
            folder: made if it is not there; files of these names in it are replaced, each whole or not at all.

        Returns:
            What was written.

        Raises:
            MissingDependency: the extra `report` is not installed.
            TrainingError: a file cannot be written.
        """
        from boostrank.core.files import write_atomically

        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        written = [into / "report.html"]
        write_atomically(written[0], self.to_html().encode("utf-8", "backslashreplace"))
        for name, chart in self.charts.items():
            for ending in ("svg", "csv"):
                written.append(into / f"{name}.{ending}")
                chart.save(written[-1])
        for name, frame in self.frames.items():
            written.append(into / f"{name}.csv")
            text = frame.to_csv(index=False, lineterminator="\n")
            write_atomically(written[-1], text.encode("utf-8", "backslashreplace"))
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
    only: Sequence[str] = SECTIONS,
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
        only: the sections to work out, of `SECTIONS`.
        name, data_name: what model and data are called; by default the model's file, and the files of the data.
        seed: of shuffles, samples and bootstrap.
        threads: None means every available core.
        progress: told how far it is.

    Raises:
        ParameterError: an unknown metric, convention or section, a number out of range.
        DataError: features that are not the model's; and where no section can be had, what is wrong.
    """
    unknown = [one for one in only if one not in SECTIONS]
    if unknown:
        raise ParameterError(f"no section {unknown[0]!r}: {', '.join(SECTIONS)}")
    called = name or (os.fspath(model) if isinstance(model, str | PathLike) else "the model")
    ranker = model if isinstance(model, RankingModel) else RankingModel.load(model)
    asked = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    names = [n for m in asked for n in (Metric.parse(m) if isinstance(m, str) else m).names]
    first = headline(names)
    if first is None:
        raise ParameterError("no metric to measure by: name one, such as ndcg@10")
    previous = _previous(baseline, baseline_name, data, threads)
    data = ranker.check_features(data)
    bounds = dict(matters or {})
    negligible = bounds.get(first) or _NEGLIGIBLE
    found: dict[str, Any] = dict.fromkeys(SECTIONS)
    rules = Conventions.of(conventions)
    shared: dict[str, Any] = {"conventions": rules, "seed": seed, "threads": threads}
    # Of thousands of changed scores, ties by name are not worth what they cost.
    nameless = shared | {"conventions": replace(rules, ties="expected") if rules.ties == "docno" else rules}

    @cache
    def scores() -> Float64Array:
        """Of the walk through the trees if there was one: for 1,000,000 documents and 400 trees 40 s less."""
        walked = None if found["learning"] is None else found["learning"].scores
        return in_rows(ranker.predict(data, threads=threads), data) if walked is None else walked

    steps: dict[str, Callable[[], Any]] = {
        "learning": lambda: learning(
            ranker, data, metric=first, documents=documents, negligible=negligible, progress=progress, **nameless
        ),
        "verdict": lambda: verdict(
            scores(), data, asked, previous=previous, docnos=docnos, matters=bounds, progress=progress, **shared
        ),
        "queries": lambda: query_values(
            ranker, data, scores(), metric=first, segments=segments, docnos=docnos, **shared
        ),
        "importance": lambda: importance(
            ranker, data, metric=first, groups=groups, documents=documents, progress=progress, **nameless
        ),
        "shapes": lambda: shapes(
            ranker, data, importance=found["importance"], seed=seed, threads=threads, progress=progress
        ),
    }
    errors: dict[str, BoostrankError] = {}
    for section, step in steps.items():
        if section not in only:
            continue
        try:
            found[section] = step()
        except ParameterError:
            raise
        except BoostrankError as error:  # a page without one of its parts is better than none
            errors[section] = error
    if errors and not any(found.values()):
        raise next(iter(errors.values()))
    missing = {section: str(error) for section, error in errors.items()}
    files = ", ".join(data.provenance.files)
    return Report(
        model=called, data=files if data_name is None else data_name, about=_about(ranker, data), missing=missing,
        **found,
    )  # fmt: skip


def _previous(
    given: Any, name: str | None, data: RankingDataset, threads: int | None
) -> tuple[str, npt.ArrayLike] | None:  # fmt: skip
    if given is None:
        return None
    called = name or (os.fspath(given) if isinstance(given, str | PathLike) else "the previous model")
    model = RankingModel.load(given) if isinstance(given, str | PathLike) else given
    told = model.predict(data, threads=threads) if isinstance(model, RankingModel) else np.asarray(model, np.float64)
    return called, in_rows(told, data)


def in_rows(values: Float64Array, data: RankingDataset) -> Float64Array:
    """Values in the order in which the rows were given, in the order of the data set's rows."""
    return values if data.input_rows is None else values[data.input_rows]


def _about(model: RankingModel, data: RankingDataset) -> str:
    objective = model.info.get("objective", {}).get("name")
    trained = f", trained with {objective}" if objective else ""
    return (
        f"{model.backend}{trained}, {model.best_iteration:,} rounds, {model.n_features:,} features; "
        f"{len(data.queries):,} queries of {data.n_documents:,} documents"
    )


def _flat(sections: Iterable[Section]) -> list[Part]:
    from boostrank.report.html.page import Beside, Fold

    def inside(parts: Iterable[Part]) -> list[Part]:
        out: list[Part] = []
        for part in parts:
            out += inside(part.parts) if isinstance(part, Beside | Fold) else [part]
        return out

    return inside(part for section in sections for part in section.parts)


def _told(found: Any) -> dict[str, Any]:
    if hasattr(found, "to_dict"):
        told: dict[str, Any] = found.to_dict()
        return told
    # `Importance` tells its features in rows.
    alone = {
        f.name: getattr(found, f.name)
        for f in dataclasses.fields(found)
        if isinstance(getattr(found, f.name), int | float | str)
    }
    return alone | {
        "features": found.rows(),
        "groups": [dataclasses.asdict(e) for e in found.groups],
        "clusters": [dataclasses.asdict(e) for e in found.clusters],
        "removed": None if found.removed is None else dataclasses.asdict(found.removed),
    }
