"""Sections of a page: declaration, input of the analyses, and pages of several sections."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy.typing as npt
from markupsafe import Markup

from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.conventions import Conventions
from boostrank.core.errors import FileFormatError, InputError, ParameterError
from boostrank.core.files import read_text
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.fit.params import headline
from boostrank.metric import BoundMetrics, Metric
from boostrank.records import NoiseRecord, load_record
from boostrank.report.charts import theme, vega_script
from boostrank.report.html import Table, block
from boostrank.report.scoring import Progress, silent, start_scores
from boostrank.report.segments import NEGLIGIBLE

_GENERATOR, _HEAD = "boostrank", 2000
# Runs before the first paint, so that rows hidden by the script never flash.
_EARLY = 'document.documentElement.classList.add("js");'


@dataclass(eq=False)
class Context:
    """Input of the analyses of a report.

    Args:
        model: a `RankingModel`; None to compare scores only.
        data: held-out labelled queries, with the model's features.
        metrics: metrics of the verdict. Other sections use `metric`, the largest cut-off of the first.
        previous: name and scores, float[N] in row order, of a model to compare with.
        conventions: conventions of the metrics. Importance and learning average over tied orders instead of ordering
            ties by name.
        segments: query id -> segment, or a file of two columns, in addition to list length and best label.
        groups: name -> features to shuffle together.
        documents: size of the sample for importance and learning, in whole queries; 0 means all; None means about half
            a minute of work on two cores.
        matters: metric -> difference that exceeds the noise of training; smaller ones are grey.
        clicks: click log of these data, with rows in input order; adds a section.
        propensities: propensities of positions; None estimates them, or takes those of the model's training.
        seed: seed of shuffles, samples and bootstrap.
        threads: None means every available core.
        results: section -> result, of earlier sections.

    Raises:
        ParameterError: an unknown metric or convention, no metric, or negative `documents`.
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
    clicks: ClickLog | None = None
    propensities: Propensities | None = None
    seed: int = 0
    threads: int | None = None
    progress: Progress | None = None
    results: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = Metric.all_of(self.metrics)
        self.conventions = Conventions.of(self.conventions)
        first = headline([name for metric in self.metrics for name in metric.names])
        if first is None:
            raise ParameterError("no metric given; pass one, such as ndcg@10")
        self.metric = first
        if self.documents is not None and self.documents < 0:
            raise ParameterError("documents must be 0 or more")

    @cached_property
    def rules(self) -> Conventions:
        """Conventions of the metrics, resolved for the labels of the data."""
        return Conventions.of(self.conventions).over(self.data.labels)

    @cached_property
    def scores(self) -> Float64Array:
        """Scores of the model, float64[N], in row order."""
        # Reuse the scores of `learning`: that saves 40 s for 1,000,000 documents and 400 trees.
        for result in self.results.values():
            known: Float64Array | None = getattr(result, "scores", None)
            if known is not None:
                return known
        return self.data.in_row_order(self.model.predict(self.data, threads=self.threads))

    @cached_property
    def start(self) -> Float64Array | None:
        """Scores of the linear start, float64[N], in row order; None without a start."""
        return start_scores(self.model, self.data, self.threads)

    def bound(self, metrics: Any, rules: Conventions | None = None, **more: Any) -> BoundMetrics:
        """Bind metrics to the data, by default under `rules`."""
        data = self.data
        names = data.document_names
        return BoundMetrics(metrics, data.labels, data.queries, rules or self.rules, self.threads, docnos=names, **more)

    @property
    def negligible(self) -> float:
        """Largest difference of the metric that does not matter."""
        return (self.matters or {}).get(self.metric) or NEGLIGIBLE

    @property
    def workers(self) -> int:
        """Number of threads."""
        return resolve_threads(self.threads)

    @property
    def say(self) -> Progress:
        """Progress callback, possibly silent."""
        return self.progress or silent


def read_groups(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Read feature groups, one `name: feature, pattern*, ...` per line; `#` begins a comment."""
    groups: dict[str, list[str]] = {}
    for number, text in enumerate(read_text(path).split("\n"), 1):
        line = text.partition("#")[0].strip()
        if not line:
            continue
        name, colon, patterns = line.partition(":")
        words = patterns.replace(",", " ").split()
        if not (colon and name.strip() and words):
            raise FileFormatError("expected `name: feature, feature, ...`", file=path, line=number)
        if name.strip() in groups:
            raise FileFormatError(f"group {name.strip()!r} is defined twice", file=path, line=number)
        members: list[str] = []
        for word in words:
            # Names may contain brackets, which are special in patterns: exact names take precedence.
            found = [word] if word in names else fnmatch.filter(names, word)
            if not found:
                raise FileFormatError(f"the model has no feature {word!r}", file=path, line=number)
            members += found
        groups[name.strip()] = list(dict.fromkeys(members))
    return groups


def read_matters(path: str) -> dict[str, float]:
    """Read metric -> noise threshold from the output of `boostrank study noise --json`."""
    found = load_record(NoiseRecord, read_text(path), path)
    return {name: one.matters for name, one in found.metrics.items()}


@dataclass(frozen=True, eq=False)
class PageSection:
    """A section of a page with an entry in its navigation.

    Args:
        name: unique on the page: "importance".
        short: name in the navigation; "" means the title.
        brief: one or two sentences for the top of the page.
    """

    name: str
    title: str
    body: Markup
    short: str = ""
    brief: Markup | str = ""
    drawn: Sequence[Any] = ()


@dataclass(frozen=True)
class Section:
    """Declaration of a section: the `SPEC` of a module in `boostrank.report.sections`.

    The template `templates/NAME.html` has a block `body` and an optional block `brief`, one or two sentences for the
    top of the page. It has access to the result as `found` and to the values of `parts`. `draw(chart, title, about)`
    and `table(name, rows, columns)` add charts and tables. Without a template, the charts and tables of `parts` follow
    each other.

    Args:
        name: name of the module, of the result in `Report`, and on the command line.
        run: analysis; the tables of its `boostrank.report.result.Result` become data frames. A BoostrankError replaces
            the section.
        parts: values for the template.
        place: position on the page, ascending.
        after: sections to run earlier, if requested; their results are in the context.
        short: name in the navigation; "" means the title.
        applies: whether the section applies to a model and its data; if not, it runs only if `only` names it.
    """

    name: str
    title: str
    run: Callable[[Context], Any]
    parts: Callable[[Any], Mapping[str, Any]]
    place: int = 100
    after: tuple[str, ...] = ()
    short: str = ""
    aliases: tuple[str, ...] = ()
    applies: Callable[[Context], bool] = lambda c: True

    def on_page(self, found: Any) -> PageSection:
        """Return the page section of a result."""
        drawn: list[Any] = []
        values = {"found": found, **self.parts(found)}
        body, brief = (
            block(f"{self.name}.html", name, drawn=drawn, parts=values, **values) for name in ("body", "brief")
        )
        return PageSection(self.name, self.title, body, self.short, brief, drawn)


def page(title: str, sections: Sequence[PageSection], **more: Any) -> str:
    """Return a complete document. It loads nothing, and its content security policy forbids loading.

    Args:
        title: plain text, possibly untrusted.
        sections: sections in order; two or more get a navigation.
        more: `summary`, markup above the sections; `heading`, the title as markup; `drawn`, charts and tables of the
            summary.
    """
    drawn = [*more.pop("drawn", ()), *(part for section in sections for part in section.drawn)]
    taken = [section.name for section in sections] + [part.name for part in drawn]
    twice = {name for name in taken if taken.count(name) > 1}
    if twice:
        raise ValueError(f"two parts of a page have the same name: {', '.join(sorted(twice))}")
    charts = any(not isinstance(part, Table) for part in drawn)
    scripts = [*([vega_script()] if charts else []), _own("script.js")]
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in (_EARLY, *scripts))
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src "
    values = {"heading": "", "summary": ""} | more | {"title": title, "sections": sections}
    return block(
        "page.html",
        "page",
        policy=policy + " ".join(f"'sha256-{digest}'" for digest in digests),
        generator=_GENERATOR,
        style=Markup(_own("style.css")),
        early=Markup(_EARLY),
        scripts=[Markup(script) for script in scripts],
        themes={"light": theme(), "dark": theme(dark=True)} if charts else None,
        **values,
    )


def page_of(template: str, title: str, sections: Mapping[str, tuple[str, str]], **values: Any) -> str:
    """Return the page of one result, from a template with blocks `heading`, `summary` and one per section.

    Args:
        sections: name -> (title, short name in the navigation or "").
    """
    drawn: list[Any] = []
    blocks = {name: block(template, name, drawn=drawn, **values) for name in ("heading", "summary", *sections)}
    heading, summary = blocks.pop("heading"), blocks.pop("summary")
    made = [PageSection(name, title, blocks[name], short) for name, (title, short) in sections.items()]
    return page(title, made, heading=heading, summary=summary, drawn=drawn)


def is_page(path: str | PathLike[str]) -> bool:
    """Return whether boostrank wrote this page."""
    with open(path, "rb") as file:
        return f'content="{_GENERATOR}"'.encode() in file.read(_HEAD)


def page_beside(model: str) -> str:
    """Return `model-report.html` next to `model.txt`; an earlier report may be replaced."""
    path = Path(model).with_name(f"{Path(model).stem}-report.html")
    if path.exists() and not is_page(path):
        raise InputError(f"{path}: exists and is not a boostrank report; choose another file with -o")
    return str(path)


@cache
def _own(name: str) -> str:
    return files("boostrank.report").joinpath("templates", name).read_text("utf-8")
