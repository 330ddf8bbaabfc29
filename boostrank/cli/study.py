"""Studies of rankers: options, reading and output that their commands share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import options
from boostrank.cli.errors import say
from boostrank.cli.options import GAIN_HELP, InputFile, OutputFile, conventions_option, option, threads_option
from boostrank.cli.reading import Reader
from boostrank.cli.tables import width_of

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel

MEASURES, RESULTS = "Measures", "Results"

measures, results = (partial(option, section=section) for section in (MEASURES, RESULTS))

data_argument = options.data_argument(MEASURES)
gain_option = measures("--gain", help=GAIN_HELP)
groups_option = measures("--groups", metavar="FILE", type=InputFile(),
                         help="Features shuffled together, a group a line: `text: bm25_*, tf_title`.")  # fmt: skip
segments_option = measures("--segments", metavar="FILE", type=InputFile(),
                           help="Lines `qid,segment`: look at each segment by itself too.")  # fmt: skip
noise_option = measures(
    "--noise", metavar="FILE", type=InputFile(),
    help="What `boostrank noise --json` printed: differences that luck explains are marked.",
)  # fmt: skip
seed_option = measures("--seed", type=click.IntRange(0), default=0, help="Of shuffles, samples and resampling.")
measured_by_option = conventions_option(MEASURES)
workers_option = threads_option(RESULTS)
json_option = results("--json", "as_json", is_flag=True, help="Print one JSON object.")
html_option = results("--html", metavar="FILE", type=OutputFile(), help="Write one page that needs no network.")


def read_for_model(
    model: str, data: str | Sequence[str], given: dict[str, Any], *, keep_comments: bool = False
) -> tuple[RankingModel, RankingDataset]:
    """A model, and data in its order of features.

    Args:
        model, data: files.
        given: the values of the reader's options, and `threads`.
        keep_comments: whether the rows' comments are needed.
    """
    from boostrank.model.ranking_model import RankingModel

    ranker = RankingModel.load(model)
    reader = Reader(given, keep_comments=keep_comments)
    reader.say_gain(ranker, model)
    return ranker, reader.read(data, like=reader.feature_space(ranker, model, data))


def read_matters(path: str) -> dict[str, float]:
    """Metric -> the difference of two trainings that is more than luck, from what `boostrank noise --json` printed.

    Raises:
        FileFormatError: it is not what `boostrank noise --json` prints.
    """
    from boostrank.core.files import read_text
    from boostrank.records import NoiseRecord, load_record

    found = load_record(NoiseRecord, read_text(path), path)
    return {name: one.matters for name, one in found.metrics.items()}


def check_page(path: str | None) -> None:
    """Find out before the work whether a page can be drawn and written."""
    if path is None:
        return
    from boostrank.core.files import check_output
    from boostrank.report.vega import need_report_extra

    need_report_extra()
    check_output(path)


def write_page(path: str, html: str) -> None:
    """Write a page, and say so."""
    from boostrank.core.files import write_output

    write_output(path, html.encode("utf-8", "backslashreplace"))
    say(f"{path}: written")


def print_json(value: Any) -> None:
    """One JSON object; what is not a number is null."""
    from boostrank.records import jsonable

    click.echo(json.dumps(jsonable(value), allow_nan=False))


def print_wrapped(context: click.Context, texts: Iterable[str], indent: str = "  ") -> None:
    """Paragraphs as wide as the terminal."""
    width = width_of(context)
    for text in texts:
        click.echo(click.wrap_text(text, width, "", indent))


def listed(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
