"""`boostrank predict` and `boostrank calibrate`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import chain, islice

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, JsonOptions, ThreadOptions, argument, option


@dataclass(frozen=True, kw_only=True)
class Predict(ThreadOptions):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    output: str = option("-", "File to write the scores to.", short="-o", file="stream", shown="-, standard output")
    run: str | None = option(
        None, "Write a run file of TREC with this tag: query Q0 document rank score TAG.", metavar="TAG"
    )
    num_iteration: int | None = option(None, "Use the first N rounds.", ge=1, shown="the best")
    calibrated: bool = option(False, "Write expected grades, by `boostrank calibrate`.", conflicts="num_iteration")


@command("predict", Predict, FileOptions)
def predict(own: Predict, reading: FileOptions) -> None:
    """Score the documents of DATA with MODEL: one score per line, in input order, or a table with their names.

    DATA is one file or several, plain or compressed, a quoted pattern, or `-` for standard input.

    Scores are written while rows are read, in constant memory; a model that needs whole queries is scored when all
    rows are read. With -o the file is written whole or not at all. Scores on standard output stay if a later row is
    refused.

    -o with the ending .csv, .jsonl or .parquet writes a table: query id, name of the document (--id, or the comment of
    a libsvm row) and score. --run TAG writes a run file of TREC, which needs these names too.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Higher is better, within one query only,
    unless scores are --calibrated.
    """
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip would write fewer scores than there are rows, so that scores after the first would be "
            "of other documents: mend the rows, or leave them out of the file"
        )
    from boostrank.core.machine import uncollected, without

    with uncollected(freeze=True):
        from boostrank.core.files import check_writable
        from boostrank.data.text.writer import score_text
        from boostrank.model.ranking_model import RankingModel, calibrated_scores
        from boostrank.model.scores import has_names, write_scores

        if own.output != "-":
            check_writable(own.output, streams=True)
        with without("sklearn", "pandas"):  # an engine would import them, which takes a second, without need
            model = RankingModel.load(own.model)
        known, named = model.info.calibration, bool(own.run) or has_names(own.output)
        if own.calibrated and known is None:
            raise InputError(f"{own.model} is not calibrated: boostrank calibrate {own.model} DATA, on unseen queries")
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


@dataclass(frozen=True, kw_only=True)
class Calibrate(JsonOptions, ThreadOptions):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    output: str | None = option(None, "Model file to write.", short="-o", file="write", shown="MODEL")


@command("calibrate", Calibrate, FileOptions, replaceable=("model",))
def calibrate(own: Calibrate, reading: FileOptions) -> None:
    """Fit a map from scores to expected grades on DATA, which MODEL has not seen, and keep it in MODEL's record.

    No order within a query changes. `predict --calibrated` applies the map, and `report` shows how reliable it is.
    Exported files give raw scores. With `--label-map 0=0,1=0,2=1`, grades are probabilities of grade 2.

    Printed errors and shares are of queries left out of the fit. If the query explains more than the score does, a
    score means something else in each query.
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
    click.echo(f"{output}: scores became grades, by {found['rows']:,} documents in {found['queries']:,} queries")
    click.echo(f"calibration error: {error:.4f} [{low:.4f}, {high:.4f}]; raw scores: {found['uncalibrated_error']:.4f}")
    click.echo(f"variance of grades explained: {shares}")
