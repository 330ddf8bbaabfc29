"""The commands `boostrank predict` and `boostrank calibrate`."""

from __future__ import annotations

import sys
from itertools import chain, islice

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, JsonOptions, ModelOptions, ThreadOptions, option


class Predict(ModelOptions, ThreadOptions):
    """Options of `boostrank predict`."""

    output: str = option("File to write the scores to.", "-", short="-o", file="stream", shown="-, standard output")
    run: str | None = option(
        "Write a TREC run file with this tag: lines `query Q0 document rank score TAG`.", metavar="TAG"
    )
    num_iteration: int | None = option("Use only the first N rounds.", ge=1, shown="the best")
    calibrated: bool = option("Write the expected grades of `boostrank calibrate`.", conflicts="num_iteration")


@command("predict")
def predict(own: Predict, reading: FileOptions) -> None:
    """Score the documents in DATA with MODEL, and write one score per line in input order, or a table.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). DATA is one or more files, plain or compressed, a
    quoted pattern, or `-` for standard input. A higher score is better. Scores are comparable only within a query,
    unless they are --calibrated.

    Scores are written while rows are read, in constant memory. A model that needs whole queries reads all rows first.
    With -o, the file is written completely or not at all. On standard output, scores before an error remain.

    An output file that ends in .csv, .jsonl or .parquet is a table: query id, document name (--id, or the comment of a
    libsvm row) and score. --run TAG also needs document names.
    """
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip cannot be used: there would be fewer scores than rows. Correct the rows, or remove "
            "them from the file"
        )
    from boostrank.core.machine import uncollected, without

    with uncollected(freeze=True):
        from boostrank.core.files import check_writable
        from boostrank.files.writer import score_text
        from boostrank.model.ranking_model import RankingModel, calibrated_scores
        from boostrank.model.scores import has_names, write_scores

        if own.output != "-":
            check_writable(own.output, streams=True)
        with without("sklearn", "pandas"):  # engines import them needlessly, which takes a second
            model = RankingModel.load(own.model)
        known, named = model.info.calibration, bool(own.run) or has_names(own.output)
        if own.calibrated and known is None:
            raise InputError(
                f"{own.model} is not calibrated; run boostrank calibrate {own.model} DATA on unseen queries"
            )
        pieces = Reader(reading, own.threads, names=named).scores(own.data, model, own.model, own.num_iteration)
        if own.calibrated:
            pieces = (
                one._replace(values=calibrated_scores(known, one.values)) if named else calibrated_scores(known, one)
                for one in pieces
            )
        if own.run:
            from boostrank.model.trec import run_text

            pieces = run_text(pieces, own.run)
        first = list(islice(pieces, 1))
    if own.output == "-":
        for scores in chain(first, pieces):
            sys.stdout.write((scores if own.run else score_text(scores)).decode())
        return
    write_scores(own.output, chain(first, pieces))


class Calibrate(ModelOptions, JsonOptions, ThreadOptions):
    """Options of `boostrank calibrate`."""

    output: str | None = option("Model file to write.", short="-o", file="write", shown="MODEL")


@command("calibrate", replaceable=("model",))
def calibrate(own: Calibrate, reading: FileOptions) -> None:
    """Fit a map from scores to expected grades on DATA that MODEL has not seen, and store it in MODEL's record.

    The map keeps the order within each query. `predict --calibrated` applies it, and `report` shows its reliability.
    Exported files return raw scores. With `--label-map 0=0,1=0,2=1`, grades are probabilities of grade 2.

    The printed errors and variance fractions are for queries left out of the fit. If the query explains more variance
    than the score, scores are not comparable between queries.
    """
    from boostrank.core.files import check_writable, reserved
    from boostrank.model.calibration import calibrate

    output = own.output or own.model
    check_writable(output)
    with reserved(output):
        model, data = Reader(reading, own.threads).read_for_model(own.model, own.data)
        model = calibrate(model, data, threads=own.threads)
        model.save(output)
    found = model.info["calibration"]
    if own.as_json:
        print_json(found)
        return
    error, low, high = found["error"]
    shares = f"{found['explained']:.1%} by the calibrated score, {found['explained_by_query']:.1%} by the query"
    click.echo(f"{output}: calibrated on {found['rows']:,} documents in {found['queries']:,} queries")
    click.echo(f"calibration error: {error:.4f} [{low:.4f}, {high:.4f}]; raw scores: {found['uncalibrated_error']:.4f}")
    click.echo(f"variance of grades explained: {shares}")
