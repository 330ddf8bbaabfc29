"""The command `boostrank report`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boostrank.cli.command import Command
from boostrank.cli.errors import say
from boostrank.cli.reading import name_of
from boostrank.cli.show import StepProgress, check_page, print_json, write_page
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, ModelOptions, PropensityOptions, StudyOptions, option
from boostrank.reporting.sections import METRICS, SECTIONS
from boostrank.reporting.table import printable

if TYPE_CHECKING:
    from boostrank.model.ranking_model import RankingModel

_BY_CLICKS = "dcg@1,3,5,10"


class ReportOptions(ModelOptions, PropensityOptions, StudyOptions, group="Measures"):
    """Options of `boostrank report`."""

    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@1,3,5,10, map, or a function in a file, my.py:name. All sections but"
        " the verdict use the first one, at its largest cut-off.",
        shown=f"{', '.join(METRICS)}; {_BY_CLICKS} for clicks",
    )
    baseline: str | None = option(
        "Earlier model, or a file with its scores, to compare with.", metavar="OLD", file="read"
    )
    documents: int | None = option(
        "Use a sample of whole queries with about N documents for importance and learning; 0 uses"
        " all.",
        ge=0,
        shown="as many as take half a minute each",
    )
    only: tuple[str, ...] = option(
        "Write this section only.", choices=" ".join(SECTIONS.modules()), group="Results"
    )
    output: str | None = option(
        "HTML page to write.",
        file="output",
        shown="MODEL-report.html, without --json and --card",
        group="Results",
    )
    card: str | None = option(
        "Model card to write, as Markdown (.md) for Hugging Face.",
        file="output",
        group="Results",
    )
    license: str | None = option(
        "License that the card states, such as mit.", needs="card", group="Results"
    )


@Command
def report(options: ReportOptions, reading: FileOptions) -> None:
    """Write a page about MODEL on test DATA: metrics, the importance and effect of each feature,
    the course of training, and the worst queries.

    MODEL is a file of boostrank, LightGBM, XGBoost or a search engine. DATA must not be its
    training data.
    """
    from boostrank.cli.judging import JudgedData
    from boostrank.core.files import check_writable
    from boostrank.model.ranking_model import RankingModel
    from boostrank.model.scores import load_ranker
    from boostrank.reporting.card import check_ending
    from boostrank.reporting.page import report
    from boostrank.reporting.section import page_beside

    output = options.output
    if output is None and not (options.as_json or options.card):
        output = page_beside(options.model)
    if options.baseline == options.model:
        raise InputError("--baseline is the model itself")
    # Check the options before reading.
    judged = JudgedData(options, reading, METRICS, (_BY_CLICKS,))
    if options.card is not None:
        check_ending(options.card)
        check_writable(options.card)
    if output is not None:
        check_page(output)
    model = RankingModel.load(options.model)
    # Read the data for the model and the baseline.
    models: dict[str, RankingModel | None] = {options.model: model}
    if options.baseline:
        models[options.baseline] = load_ranker(options.baseline)
    judged.read(models)
    dataset, previous, clicks = judged.datasets[options.model], None, judged.clicks
    if options.baseline:
        (previous,) = judged.rankers([options.baseline])
    propensities = None
    if clicks is not None and options.propensities:
        propensities = clicks.propensities
    with StepProgress() as progress:
        result = report(
            model,
            dataset,
            judged.metrics,
            baseline=previous,
            baseline_name=options.baseline,
            documents=options.documents,
            clicks=clicks and clicks.log,
            propensities=propensities,
            name=options.model,
            data_name=name_of(options.data),
            only=options.only or None,
            progress=progress,
            **judged.options,
        )
    if options.card is not None:
        result.card(options.license).save(options.card)
        say(f"{options.card}: written")
    if result.opening is not None:
        say(printable(str(result.opening)))
    for section, reason in result.missing.items():
        say(f"no {section}: {reason}")
    if output is not None:
        write_page(output, result.to_html())
    if options.as_json:
        print_json(result.to_dict())
