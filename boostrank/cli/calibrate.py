"""`boostrank calibrate`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json
from boostrank.options import FileOptions, JsonOptions, ThreadOptions, argument, option


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
