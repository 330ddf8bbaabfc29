"""Page sections, with their declarations, the input for their analyses, and pages that combine
several sections.
"""

from __future__ import annotations

import base64
import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.conventions import Conventions
from boostrank.core.errors import InputError, ModelError, ParameterError
from boostrank.core.files import read_text
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import crossed_difference, paired_difference
from boostrank.core.types import Array, BoolArray, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.fit.settings import headline
from boostrank.kernels.forest import Walker
from boostrank.kernels.jit import run_parallel
from boostrank.metrics import BoundMetrics, Metric
from boostrank.records import NoiseRecord, load_record
from boostrank.reporting.difference import Difference, Opening
from boostrank.reporting.html import block, read_template, theme, vega_script
from boostrank.reporting.scoring import Engine, some_trees
from boostrank.reporting.segments import NEGLIGIBLE, TIE, Segmentation, segmentations

_GENERATOR, _HEAD = "boostrank", 2000
T = TypeVar("T")
# Number of rows on which the walker is compared with the engine.
_COMPARED = 1000
# Runs before the first paint, so that rows hidden by the script never flash.
_EARLY = 'document.documentElement.classList.add("js");'


@dataclass(eq=False)
class Context:
    """The input for the analyses in a report.

    Args:
        model: a `RankingModel`, or None to compare scores only.
        data: labelled, held-out queries with the model's features.
        metrics: metrics in the verdict. Other sections use `metric`, the first metric at its
            largest cut-off.
        previous: name and scores, float[N] in row order, of a model to compare with.
        conventions: metric conventions. Importance and learning never order tied documents by name,
            but use the mean over all orders instead.
        segments: mapping from query id to segment, or a file with these two columns. Segments by
            list length and by best label are always included.
        documents: number of documents in the sample for importance and learning, which consists of
            whole queries. 0 means all documents. None limits the work to about half a minute on two
            cores.
        matters: mapping from a metric to the difference that exceeds training noise. The page shows
            smaller differences in grey, and smaller losses are negligible.
        clicks: click log for the data, with rows in input order. It adds a section to the report.
        propensities: examination propensities by position. By default, they are estimated from the
            log, or taken from the model's training.
        seed: random seed for shuffles, samples and bootstrap.
        threads: number of threads, or None for every available core.
        progress: function of the step, and of the numbers of finished and of all documents.
        results: results of earlier sections, by name.

    Raises:
        ParameterError: an unknown metric or convention, no metric, or negative `documents`.
    """

    model: Any
    data: RankingDataset
    metrics: Any
    previous: tuple[str, npt.ArrayLike] | None = None
    conventions: Conventions | str = "default"
    segments: Mapping[Any, Any] | str | PathLike[str] | None = None
    documents: int | None = None
    matters: Mapping[str, float] | None = None
    clicks: ClickLog | None = None
    propensities: Propensities | None = None
    seed: int = 0
    threads: int | None = None
    progress: Any = None
    results: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workers = resolve_threads(self.threads)
        self.progress = self.progress or (lambda *_: None)
        self.metrics = Metric.all_of(self.metrics)
        self.conventions = Conventions.of(self.conventions)
        self.metric = headline([name for metric in self.metrics for name in metric.names]) or ""
        if not self.metrics:
            raise ParameterError("metrics is empty; pass a metric, such as ndcg@10")
        if self.documents is not None and self.documents < 0:
            raise ParameterError(f"documents must be at least 0, but got {self.documents}")

    @cached_property
    def main(self) -> Metric:
        """The metric called `metric`.

        Raises:
            ParameterError: smaller values of a metric are better.
        """
        for metric in self.metrics:
            if not metric.higher_is_better:
                raise ParameterError(
                    f"metric {metric}: higher values must be better here; return the negative value"
                )
        first_metric = self.metrics[0]
        return first_metric if first_metric.function is not None else Metric.parse(self.metric)

    @cached_property
    def rules(self) -> Conventions:
        """The metric conventions, resolved for the labels in the data."""
        return Conventions.of(self.conventions).with_best_grade(self.data.labels)

    @cached_property
    def scores(self) -> Float64Array:
        """The model's scores, float64[N], in row order."""
        # Reuse the scores of `learning`: that saves 40 s for 1,000,000 documents and 400 trees.
        scores: Float64Array | None = getattr(self.results.get("learning"), "scores", None)
        if scores is not None:
            return scores
        return self.data.in_row_order(self.model.predict(self.data, threads=self.threads))

    @cached_property
    def trees(self) -> Trees:
        """The model's trees."""
        trees: Trees = self.model.trees()
        return trees

    def rows_of(self, data: RankingDataset) -> DenseRows:
        """Return the features that the trees use."""
        return DenseRows(data, self.trees.used, self.model.absent_is_missing)

    def make_walker(self) -> Walker:
        """Return a walker for the model's trees.

        Raises:
            ModelError: the walker does not reproduce the engine's scores on these data.
        """
        trees = self.trees
        if trees.forest is None:
            raise ModelError(
                "the trees cannot be scored without the engine: a linear model has none"
            )
        walker = Walker(trees.forest, trees.used)
        sample = self.rows_of(self.data)[:_COMPARED]
        expected = Engine(self.model, trees.used, self.workers).scores(sample)
        difference = walker.scores(sample) - expected
        # XGBoost sums in float32, and its scores include a constant that is not in the trees.
        accuracy = 1e-9 if trees.double else 1e-5
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        if difference.size and float(np.ptp(difference)) > accuracy * scale:
            raise ModelError(
                f"the parsed trees differ from {self.model.backend}'s scores by"
                f" {np.ptp(difference):.2g}"
            )
        return walker

    @cached_property
    def start(self) -> Float64Array | None:
        """The scores of the linear start, float64[N], in row order, or None without a start that
        can be walked.
        """
        trees = self.trees
        if trees.forest is None or trees.forest.start is None or not trees.count:
            return None
        rows = self.rows_of(self.data)
        walker = Walker(some_trees(trees.forest, 0, 0, trees.forest.start), trees.used)
        return np.concatenate(
            self.over_blocks(
                lambda _, documents: walker.scores(rows[documents]), rows, "linear start"
            )
        )

    def over_blocks(
        self,
        work: Callable[[slice, slice], T],
        rows: DenseRows,
        step: str,
        threads: int | None = None,
    ) -> list[T]:
        """Call `work(queries, documents)` in threads for blocks of some thousand documents. Return
        the results in order.
        """
        ptr, lock, finished = rows.data.queries.ptr, threading.Lock(), 0

        def run_block(query_span: tuple[int, int]) -> T:
            nonlocal finished
            documents = slice(int(ptr[query_span[0]]), int(ptr[query_span[1]]))
            result = work(slice(*query_span), documents)
            with lock:
                finished += documents.stop - documents.start
                self.progress(step, finished, int(ptr[-1]))
            return result

        return run_parallel(run_block, rows.blocks(), threads or self.workers)

    def measure_blocks(
        self,
        work: Callable[[slice, slice, BoundMetrics], None],
        rows: DenseRows,
        step: str,
        threads: int | None = None,
    ) -> None:
        """Call `work(queries, documents, bound)` as `over_blocks` does, with the metric bound to
        the queries, to be evaluated on one thread.

        Raises:
            DataError: the metric is undefined on the data.
        """
        labels, all_queries = rows.data.labels, rows.data.queries
        rules = self.rules.without_names  # ordering ties by name is too slow
        # Refuse data without an included query, which the blocks below do not.
        BoundMetrics([self.main], labels, queries=all_queries, conventions=rules)

        def measure_block(queries: slice, documents: slice) -> None:
            ptr = all_queries.ptr[queries.start : queries.stop + 1] - documents.start
            bound = BoundMetrics(
                [self.main],
                labels[documents],
                queries=QueryIndex(ptr, all_queries.qid[queries]),
                conventions=rules,
                threads=1,
                partial=True,
            )
            work(queries, documents, bound)

        self.over_blocks(measure_block, rows, step, threads)

    @cached_property
    def cuts(self) -> tuple[Segmentation, ...]:
        """The segmentations of the queries: by `segments`, by list length and by best label."""
        return segmentations(self.segments, self.data.labels, self.data.queries)

    @cached_property
    def of_segment(self) -> dict[str, Array]:
        """Each query's segment by kind, [Q]."""
        return {cut.kind: cut.name_of_query for cut in self.cuts}

    def bound(self, metrics: Any, conventions: Conventions | None = None) -> BoundMetrics:
        """Bind metrics to the data, by default with the conventions in `conventions`."""
        return BoundMetrics(
            metrics,
            self.data.labels,
            queries=self.data.queries,
            conventions=conventions or self.rules,
            threads=self.threads,
            docnos=self.data.document_names,
        )

    def measure_difference(
        self,
        metric: str,
        sides: Sequence[Float64Array],
        is_included: BoolArray,
        kind: str = "all",
        segment: str = "all",
        higher_is_better: bool = True,
    ) -> Difference:
        """Return the difference in a metric over the included queries.

        Args:
            sides: values of the models of the old and of the new ranker, float64[Q, m].
            is_included: bool[Q], the included queries, of which there must be one.
        """
        w = self.data.queries.each_weight[is_included]
        old_values, new_values = sides[0][is_included], sides[1][is_included]
        old, new = old_values.mean(axis=1), new_values.mean(axis=1)
        matters, luck = (self.matters or {}).get(metric, math.nan), math.nan
        if old_values.shape[1] == new_values.shape[1] == 1:
            difference = paired_difference(new, old, weights=w, seed=self.seed)
        else:
            difference, luck = crossed_difference(new_values, old_values, weights=w)
            matters = math.nan  # the interval has the luck of training already
        change = new - old if higher_is_better else old - new
        better, worse = int((change > TIE).sum()), int((change < -TIE).sum())
        return Difference(
            kind=kind,
            segment=segment,
            metric=metric,
            **vars(difference),
            old=float(np.average(old, weights=w)),
            new=float(np.average(new, weights=w)),
            better=better,
            same=old.size - better - worse,
            worse=worse,
            matters=matters,
            luck=luck,
            higher_is_better=higher_is_better,
        )

    @property
    def negligible(self) -> float:
        """The largest negligible difference in the metric."""
        return (self.matters or {}).get(self.metric) or NEGLIGIBLE


def read_matters(path: str) -> dict[str, float]:
    """Read the noise threshold of each metric from the output of `boostrank study noise --json`."""
    record = load_record(NoiseRecord, read_text(path), path)
    return {name: metric.matters for name, metric in record.metrics.items()}


class PageSection(NamedTuple):
    """A section on a page.

    Args:
        name: name that is unique on the page.
        brief: one or two sentences for the top of the page.
        drawn: charts in the section.
    """

    name: str
    title: str
    body: Markup
    brief: Markup | str = ""
    drawn: Sequence[Any] = ()


@dataclass(frozen=True)
class Section:
    """The declaration of a section. Each module in `boostrank.reporting.sections` declares one as
    `SPEC`.

    The template `templates/NAME.html` has a block `body` and may have a block `brief` with one or
    two sentences for the top of the page. Its variables are `result` and the values of `variables`.
    `draw(chart, title, about)` and `table(name, rows, columns)` add charts and tables. Without a
    template, the charts and tables of `variables` follow each other.

    Args:
        name: name of the module, of the result in `Report`, and on the command line.
        run: function that returns the analysis, a subclass of `boostrank.reporting.result.Result`,
            which needs no decorator. A BoostrankError replaces the section.
        variables: function that returns further variables of the template.
        position: position on the page, in ascending order.
        after: sections to run earlier, if they are requested. Their results are in the context.
        applies: whether the section applies to the model and its data. Other sections run only on
            request.
    """

    name: str
    title: str
    run: Callable[[Context], Any]
    variables: Callable[[Any], Mapping[str, Any]]
    position: int = 100
    after: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    applies: Callable[[Context], bool] = lambda context: True

    def on_page(self, result: Any) -> PageSection:
        """Render a result as a page section."""
        charts: list[Any] = []
        variables = self.variables(result)
        context = {"result": result, "variables": variables, "drawn": charts, **variables}
        body = block(f"{self.name}.html", "body", **context)
        brief = block(f"{self.name}.html", "brief", **context)
        return PageSection(self.name, self.title, body, brief, charts)


def page(
    title: str,
    sections: Sequence[PageSection],
    opening: Opening | None = None,
    summary: Any = "",
    heading: Any = "",
) -> str:
    """Render a complete HTML document that loads no other files. Its content security policy also
    forbids loading.

    Args:
        title: plain text, possibly untrusted.
        sections: sections in order. A page with several sections has a navigation.
        opening: the first line.
        summary: markup above the sections.
        heading: the title as markup.
    """
    # Include the script of charts only where there are charts, and permit no other script.
    scripts, chart_themes = [read_template("script.js")], None
    if any(section.drawn for section in sections):
        scripts.insert(0, vega_script())
        chart_themes = {"light": theme(), "dark": theme(dark=True)}
    digests = [hashlib.sha256(script.encode()).digest() for script in (_EARLY, *scripts)]
    sources = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return block(
        "page.html",
        "page",
        policy=(
            "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src"
            f" {sources}"
        ),
        generator=_GENERATOR,
        style=Markup(read_template("style.css")),
        early=Markup(_EARLY),
        scripts=[Markup(script) for script in scripts],
        themes=chart_themes,
        title=title,
        sections=sections,
        opening=opening,
        summary=summary,
        heading=heading,
    )


def page_beside(model: str) -> str:
    """Return the path `model-report.html` for `model.txt`, unless another kind of file exists
    there.
    """
    path = Path(model).with_name(f"{Path(model).stem}-report.html")
    generator_mark = f'content="{_GENERATOR}"'.encode()
    if path.is_file() and generator_mark not in path.read_bytes()[:_HEAD]:
        raise InputError(
            f"{path}: the file exists and is not a report of boostrank; choose another file with -o"
        )
    return str(path)
