"""`boostrank report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.engines import prepare_engines
from boostrank.cli.errors import say
from boostrank.cli.importance import read_groups
from boostrank.cli.noise_file import read_matters
from boostrank.cli.options import (
    Command,
    DataFile,
    InputFile,
    chosen_conventions,
    conventions_option,
    option,
    threads_option,
    with_options,
)
from boostrank.cli.progress import StepProgress
from boostrank.cli.reading import Reader, check_not_read, document_names, reading_options
from boostrank.cli.scores import load_ranker, scores_of
from boostrank.report.sections import METRICS, section_names

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset

MEASURES, RESULTS = "Measures", "Results"
# `boostrank.report.sections.verdict.analysis.METRICS`, whose module is too heavy for `--help`.
_METRICS = ("ndcg@1,3,5,10", "map", "mrr")

_options = with_options(
    option("--data", required=True, metavar="DATA", type=DataFile(), section=MEASURES, help="Labelled queries."),
    option(
        "--metric", "metrics", multiple=True, metavar="NAME", default=METRICS, show_default=True, section=MEASURES,
        help="ndcg@1,3,5,10, map, ...; may be repeated; the largest cut-off of the first is what all else is about.",
    ),
    conventions_option(MEASURES),
    option("--gain", section=MEASURES, help="Gain of a label: exponential, linear, or a table 0,1,3,7."),
    option("--baseline", metavar="OLD", type=InputFile(), section=MEASURES,
           help="A model from before, or a file with its scores: measured beside MODEL."),
    option("--segments", metavar="FILE", type=InputFile(), section=MEASURES,
           help="Lines `qid,segment`: look at each segment by itself too."),
    option("--groups", metavar="FILE", type=InputFile(), section=MEASURES,
           help="Features shuffled together, a group a line: `text: bm25_*, tf_title`."),
    option("--documents", metavar="N", type=click.IntRange(0), show_default="as many as take half a minute each",
           section=MEASURES, help="Shuffle and walk a sample of whole queries with about N documents; 0: all."),
    option("--noise", metavar="FILE", type=InputFile(), section=MEASURES,
           help="What `boostrank noise --json` printed: differences that luck explains are grey."),
    option("--seed", metavar="N", type=click.IntRange(0), default=0, show_default=True, section=MEASURES,
           help="Of shuffles, samples and resampling."),
    option("--only", multiple=True, metavar="SECTION", type=click.Choice(section_names()), section=RESULTS,
           help=f"This section alone; may be repeated: {', '.join(section_names())}."),
    option("--skip", multiple=True, metavar="SECTION", type=click.Choice(section_names()), section=RESULTS,
           help="Without this section; may be repeated."),
    option("-o", "--output", metavar="FILE", type=click.Path(), section=RESULTS,
           help="Write one page that needs no network."),
    option("--save", "folder", metavar="DIR", type=click.Path(), section=RESULTS,
           help="Write the page, every chart (SVG) and its numbers (CSV) to a folder."),
    option("--json", "as_json", is_flag=True, section=RESULTS, help="Print one JSON object."),
    threads_option(RESULTS),
)  # fmt: skip


@click.command("report", cls=Command, short_help="Everything about a ranker on one page.")
@click.argument("model", type=InputFile())
@_options
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    data: str,
    metrics: tuple[str, ...],
    conventions: str | None,
    gain: str | None,
    baseline: str | None,
    segments: str | None,
    groups: str | None,
    documents: int | None,
    noise: str | None,
    seed: int,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    output: str | None,
    folder: str | None,
    as_json: bool,
    threads: int | None,
    **given: Any,
) -> None:
    """Study MODEL on DATA, which it was not trained on, and write a page: what it is worth, which features it rests
    on, how scores depend on them, how it learnt, and where it fails.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON).
    """
    if output is None and folder is None and not as_json:
        raise click.UsageError("nothing to write: -o report.html, --save DIR or --json", context)
    if baseline == model:
        raise click.UsageError("the model is its own --baseline", context)
    prepare_engines()
    from boostrank.core.files import check_output, write_output
    from boostrank.metric import Metric
    from boostrank.report.html.vega import need_report_extra
    from boostrank.report.page import report
    from boostrank.report.segments import read_segments
    from boostrank.training.model import RankingModel

    # What is wrong with the command is said before anything is read.
    wanted = [Metric.parse(name) for name in metrics]
    rules = chosen_conventions(conventions, gain)
    matters = read_matters(noise) if noise else None
    table = None if segments is None else read_segments(segments)
    if output is not None or folder is not None:
        need_report_extra()
    read = [f for f in (model, baseline, segments, groups, noise) if f] + ([data] if data != "-" else [])
    if output is not None:
        check_not_read(output, read)
        check_output(output)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        check_output(Path(folder, "report.html"))
    ranker = RankingModel.load(model)
    together = read_groups(groups, ranker.feature_names) if groups else None
    old = load_ranker(baseline) if baseline else None
    models = {model: ranker} | ({baseline: old} if baseline else {})
    reader = Reader({**given, "threads": threads}, keep_comments=True)
    dataset, previous = None, None
    for path, mine in reader.read_for(models, data):
        if path == model:
            dataset = mine
        else:
            previous = mine.in_input_order(scores_of(path, old, mine, threads))
    assert dataset is not None
    with StepProgress() as progress:
        found = report(
            ranker, dataset, wanted, conventions=rules, baseline=previous, baseline_name=baseline, segments=table,
            groups=together, documents=documents, matters=matters,
            docnos=_names(dataset, data, needed=rules.ties == "docno"), name=model, data_name=data, seed=seed,
            only=only or None, skip=skip, threads=threads, progress=progress,
        )  # fmt: skip
    for section, why in found.missing.items():
        say(f"no {section}: {why}")
    if output is not None:
        write_output(output, found.to_html().encode("utf-8", "backslashreplace"))
        say(f"{output}: written")
    if folder is not None:
        say(f"{folder}: {len(found.save(folder))} files written")
    if as_json:
        click.echo(json.dumps(found.to_dict(), allow_nan=False))


def _names(data: RankingDataset, path: str, *, needed: bool) -> list[str] | None:
    """What the comments call the documents, "" where they do not; all of them where ties are ordered by name."""
    if needed:
        return document_names(data, path)
    from boostrank.report.documents import document_names as names_of

    return names_of(data)
