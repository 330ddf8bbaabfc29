"""The commands `boostrank predict`, `boostrank calibrate` and `boostrank refit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, JsonOptions, ModelOptions, ThreadOptions, option
from boostrank.reporting.table import interval

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel


class Predict(ModelOptions, ThreadOptions):
    """Options of `boostrank predict`."""

    output: str = option(
        "File to write the scores to.", "-", file="stream", shown="-, standard output"
    )
    run: str | None = option(
        "Write a TREC run file with this tag: lines `query Q0 document rank score TAG`.",
        metavar="TAG",
    )
    num_iteration: int | None = option("Use only the first N rounds.", ge=1, shown="the best")
    calibrated: bool = option(
        "Write the expected grades of `boostrank calibrate`.", conflicts="num_iteration"
    )


@Command
def predict(options: Predict, reading: FileOptions) -> None:
    """Score the documents in DATA with MODEL, and write one score per line in input order, or a
    table.

    MODEL is a file of boostrank, LightGBM, XGBoost or a search engine. DATA is one or more files,
    plain or compressed, a quoted pattern, or `-` for standard input. A higher score is better.
    Scores are comparable only within a query, unless they are --calibrated.

    Scores are written while rows are read, in constant memory. A model that needs whole queries
    reads all rows first. With -o, the file is written completely or not at all. On standard output,
    scores before an error remain.

    An output file that ends in .csv or .parquet is a table: query id, document name (--id,
    or the comment of a libsvm row) and score. --run TAG also needs document names.
    """
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip cannot be used: there would be fewer scores than rows. Correct the"
            " rows, or remove them from the file"
        )
    from boostrank.core.machine import uncollected, without

    with uncollected(freeze=True):
        from boostrank.core.files import check_writable
        from boostrank.files.writer import score_text
        from boostrank.model.ranking_model import RankingModel, calibrated_scores
        from boostrank.model.scores import has_names, write_scores

        if options.output != "-":
            check_writable(options.output)
        with without("sklearn", "pandas"):  # engines import them needlessly, which takes a second
            model = RankingModel.load(options.model)
        calibration = model.info.calibration
        has_ids = bool(options.run) or has_names(options.output)
        if options.calibrated and calibration is None:
            raise InputError(
                f"{options.model} is not calibrated; run boostrank calibrate"
                f" {shlex.quote(options.model)} DATA on unseen queries"
            )
        reader = Reader(reading, options, labelled=False, names=has_ids)
        pieces = reader.scores(options.data, model, options.model, options.num_iteration)
        if options.calibrated:
            calibrated = partial(calibrated_scores, calibration)
            if has_ids:
                pieces = (piece._replace(values=calibrated(piece.values)) for piece in pieces)
            else:
                pieces = map(calibrated, pieces)
        if options.run:
            from boostrank.model.trec import run_text

            pieces = run_text(pieces, options.run)
        first = list(islice(pieces, 1))
    if options.output == "-":
        for scores in chain(first, pieces):
            text = scores if options.run else score_text(scores)
            sys.stdout.write(text.decode())
        return
    write_scores(options.output, chain(first, pieces))


class Calibrate(ModelOptions, JsonOptions, ThreadOptions):
    """Options of `boostrank calibrate`."""

    output: str | None = option("Model file to write.", file="write", shown="MODEL")


@partial(Command, replaceable=("model",))
def calibrate(options: Calibrate, reading: FileOptions) -> None:
    """Fit a map from scores to expected grades on DATA that MODEL has not seen, and store it in
    OUTPUT.meta.json.

    The map keeps the order within each query. `predict --calibrated` applies it, and `report` shows
    how far it is off. Exported files return raw scores. With `--label-map 0=0,1=0,2=1`, grades are
    probabilities of grade 2.

    Print the error and the share of the variance explained, on queries left out of the fit.
    """
    from boostrank.model.calibration import calibrate

    output, model, _ = _change_model(options, reading, calibrate)
    record = model.info["calibration"]
    if options.as_json:
        print_json(record)
        return
    error, low, high = record["error"]
    ends, raw = interval(low, high, pattern="[{}, {}]"), record["uncalibrated_error"]
    echo(f"{output}: calibrated on {record['rows']:,} documents in {record['queries']:,} queries")
    echo(f"calibration error: {error:.4f} {ends}; raw scores: {raw:.4f}")
    echo(f"variance of grades explained: {record['explained']:.1%}")


class Refit(ModelOptions, ThreadOptions, group="Data and output"):
    """Options of `boostrank refit`."""

    output: str | None = option(
        "Model file to write.",
        file="output",
        shown="MODEL",
    )
    keep: float = option("Share of its old value that each leaf keeps.", 0.0, ge=0, le=1)


@partial(Command, replaceable=("model",))
def refit(options: Refit, reading: FileOptions) -> None:
    """Compute the leaves of MODEL again from DATA, while trees keep their splits.

    Use it for new judgements or documents between two trainings: it takes one pass over the rows
    per tree, and needs no validation set. The objective is the model's. Leaves that no row reaches
    keep their value.

    \b
    boostrank refit model.txt week.csv -o new.txt
    boostrank refit model.txt week.csv --keep 0.5 -o new.txt
    """
    from boostrank.fit.renewal import refit

    output, model, data = _change_model(options, reading, partial(refit, keep=options.keep))
    count = f"{data.n_documents:,} documents in {len(data.queries):,} queries"
    echo(f"{output}: {model.num_trees():,} trees refitted on {count}")


def _change_model(
    options: Calibrate | Refit, reading: FileOptions, change: Callable[..., RankingModel]
) -> tuple[str, RankingModel, RankingDataset]:
    """Write a model that is changed with data, and return its path, the model and the data."""
    from boostrank.core.files import check_writable, reserved

    output = options.output or options.model
    check_writable(output)
    with reserved(output):
        model, data = Reader(reading, options).read_for_model(options.model, options.data)
        model = change(model, data, threads=options.threads)
        model.save(output)
    return output, model, data
