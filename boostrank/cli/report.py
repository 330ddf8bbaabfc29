"""`boostrank report`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boostrank.cli import study
from boostrank.cli.clicks import ENDING, Judge, check_compared_by_clicks, click_columns_option
from boostrank.cli.errors import say
from boostrank.cli.importance import read_groups
from boostrank.cli.options import Command, InputFile, OutputFile, chosen_conventions, with_options
from boostrank.cli.progress import StepProgress
from boostrank.cli.reading import Reader, document_names, name_of, reading_options
from boostrank.cli.scores import load_ranker, scores_of
from boostrank.report.sections import METRICS, section_names

if TYPE_CHECKING:
    from boostrank.clicks.log import ClickLog
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel

_BY_CLICKS = "dcg@1,3,5,10"


@click.command("report", cls=Command)
@click.argument("model", type=InputFile())
@with_options(
    study.data_argument,
    study.measures("--metric", "metrics", multiple=True, metavar="NAME", default=METRICS,
                   show_default=f"{', '.join(METRICS)}; {_BY_CLICKS} of clicks",
                   help="ndcg@1,3,5,10, map, ...; may be repeated; all else is about the largest cut-off of the "
                        "first."),
    study.measures("--clicks", "by_clicks", is_flag=True,
                   help="By FILE.clicks beside DATA in place of labels: clicks over exposure. Of a MODEL that was "
                        "trained by clicks the page has a section on such a file without it, too."),
    click_columns_option(section=study.MEASURES),
    study.measures("--propensities", metavar="FILE", type=InputFile(), show_default="estimated",
                   help="Of the positions, for --clicks."),
    study.measured_by_option, study.gain_option,
    study.measures("--baseline", metavar="OLD", type=InputFile(),
                   help="A model from before, or a file with its scores: measured beside MODEL."),
    study.segments_option, study.groups_option,
    study.measures("--documents", type=click.IntRange(0), show_default="as many as take half a minute each",
                   help="Shuffle and walk a sample of whole queries with about N documents; 0: all."),
    study.noise_option, study.seed_option,
    study.results("--only", multiple=True, metavar="SECTION", type=click.Choice(section_names()),
                  help=f"This section alone; may be repeated: {', '.join(section_names())}."),
    study.results("--skip", multiple=True, metavar="SECTION", type=click.Choice(section_names()),
                  help="Without this section; may be repeated."),
    study.results("-o", "--output", metavar="FILE", type=OutputFile(), show_default="MODEL-report.html",
                  help="Write one page that needs no network; by default where neither --save nor --json is given."),
    study.results("--save", "folder", metavar="DIR", type=OutputFile(),
                  help="Write the page, every chart (SVG) and its numbers (CSV) to a folder."),
    study.json_option, study.workers_option,
)  # fmt: skip
@reading_options
@click.pass_context
def command(
    context: click.Context, /, model: str, data: tuple[str, ...], metrics: tuple[str, ...], by_clicks: bool,
    propensities: str | None, baseline: str | None,
    segments: str | None, groups: str | None, noise: str | None, only: tuple[str, ...], output: str | None,
    folder: str | None, as_json: bool, threads: int | None, **given: Any,
) -> None:  # fmt: skip
    """Study MODEL on DATA, which it was not trained on, and write a page: what it is worth, which features it rests
    on, how scores depend on them, how it learnt, and where it fails.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON).
    """
    if output is None and folder is None and not as_json:
        output = page_beside(model)
    if baseline == model:
        raise click.UsageError("the model is its own --baseline", context)
    from boostrank.core.files import check_not_read
    from boostrank.metric import Metric
    from boostrank.model.ranking_model import RankingModel
    from boostrank.report.documents import document_names as known_names
    from boostrank.report.page import report
    from boostrank.report.segments import read_segments

    # What is wrong with the command is said before anything is read.
    check_compared_by_clicks(context, by_clicks, propensities, data, given)
    if by_clicks and context.get_parameter_source("metrics") is ParameterSource.DEFAULT:
        metrics = (_BY_CLICKS,)
    wanted = [Metric.parse(name) for name in metrics]
    rules = chosen_conventions(given["conventions"], given["gain"])
    matters = study.read_matters(noise) if noise else None
    table = None if segments is None else read_segments(segments)
    if output is not None:
        read = [f for f in (model, baseline, segments, groups, noise, *data) if f and f != "-"]
        check_not_read(output, read)
    study.check_page(output)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        study.check_page(str(Path(folder, "report.html")))
    ranker = RankingModel.load(model)
    together = read_groups(groups, ranker.column_names) if groups else None
    old = load_ranker(baseline) if baseline else None
    models = {model: ranker} | ({baseline: old} if baseline else {})
    reader = Reader({**given, "threads": threads}, keep_comments=True)
    datasets, previous = dict(reader.read_for(models, data)), None
    rows, judge = datasets, None
    if by_clicks:
        judge = Judge.of(data[0], datasets[model], propensities, given["click_columns"])
        datasets = {name: judge.judged(one) for name, one in rows.items()}
    dataset = datasets[model]
    if baseline:
        kept = None if judge is None or old is not None else judge.kept  # a file has a score a row
        scores = scores_of(baseline, old, datasets[baseline] if kept is None else rows[baseline], threads)
        previous = datasets[baseline].in_input_order(scores if kept is None else scores[kept])
    log = _clicks_beside(ranker, data, dataset, given) if judge is None else judge.log
    curve = None if propensities is None or judge is None else judge.propensities
    # All documents need a name where ties are ordered by name; elsewhere "" where a comment has none.
    docnos = document_names(dataset, name_of(data)) if rules.ties == "docno" else known_names(dataset)
    with StepProgress() as progress:
        found = report(
            ranker, dataset, wanted, conventions=rules, baseline=previous, baseline_name=baseline, segments=table,
            groups=together, documents=given["documents"], matters=matters, docnos=docnos, clicks=log,
            propensities=curve, name=model, data_name=name_of(data),
            seed=given["seed"], only=only or None, skip=given["skip"], threads=threads, progress=progress,
        )  # fmt: skip
    for section, reason in found.missing.items():
        say(f"no {section}: {reason}")
    if output is not None:
        study.write_page(output, found.to_html())
    if folder is not None:
        say(f"{folder}: {len(found.save(folder))} files written")
    if as_json:
        study.print_json(found.to_dict())


def _clicks_beside(
    model: RankingModel, data: tuple[str, ...], dataset: RankingDataset, given: Mapping[str, Any]
) -> ClickLog | None:
    """The click log beside the data of a model that was trained by clicks, if there is one that can be read."""
    from boostrank.clicks.files import read_clicks
    from boostrank.core.errors import BoostrankError
    from boostrank.data.side_files import find_sidecar
    from boostrank.report.sections.clicks import learnt_from

    in_order = len(data) == 1 and given.get("on_bad_line") != "skip" and not given.get("regroup")
    if not in_order or learnt_from(model)[0] is None:
        return None
    try:
        name = find_sidecar(data[0], (ENDING,))
        log = None if name is None else read_clicks(name, dataset.n_documents)
    except BoostrankError as error:  # which nobody asked for
        say(f"no section on clicks: {error}")
        return None
    if log is not None:
        say(f"{name}: {log!r}, a section of the page; --clicks measures by them in place of labels")
    return log


def page_beside(model: str) -> str:
    """`model-report.html` beside `model.txt`; a page of before is replaced.

    Raises:
        InputError: what stands there was not written by this command.
    """
    from boostrank.core.errors import InputError
    from boostrank.report.html import is_page

    path = Path(model).with_name(f"{Path(model).stem}-report.html")
    if path.exists() and not is_page(path):
        raise InputError(f"{path}: is there, and no report of boostrank: name another file by -o")
    return str(path)
