"""`boostrank propensities`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from boostrank.cli import study
from boostrank.cli.clicks import click_columns_option
from boostrank.cli.errors import say
from boostrank.cli.options import Command, InputFile, OutputFile, option
from boostrank.cli.tables import print_table

if TYPE_CHECKING:
    from boostrank.clicks.estimation import CurveCheck
    from boostrank.clicks.propensities import AnyPropensities, Propensities
    from boostrank.report.charts import Chart

_PICTURES = (".svg", ".png", ".html")


@click.command("propensities", cls=Command)
@click.argument("clicks", metavar="CLICKS", type=InputFile())
@click_columns_option()
@option("--qid", metavar="COLUMN", show_default="qid or query_id, if there is one",
        help="Of the query ids, with --click-columns: documents are told apart within a query.")  # fmt: skip
@option("--check", "given", metavar="FILE", type=InputFile(),
        help="Propensities that are thought to hold: do clicks fall where they say?")  # fmt: skip
@option("-o", "--output", metavar="FILE", type=OutputFile(), help="Write the propensities, as JSON.")
@option("--picture", metavar="FILE", type=OutputFile(),
        help="Draw them with their intervals, and those of --check: .svg, .png, or .html, a page.")  # fmt: skip
@study.json_option
@click.pass_context
def command(
    context: click.Context, /, clicks: str, click_columns: tuple[str, ...] | None, qid: str | None, given: str | None,
    output: str | None, picture: str | None, as_json: bool,
) -> None:  # fmt: skip
    """How likely each position is looked at, from documents that were shown at several.

    CLICKS is a table with the columns row, position, impressions and clicks, or one with --click-columns. Where a
    document's clicks fell, given how many there were, depends on the positions alone. Refused where no clicked document
    moved. A log by segment has a curve of each.

    \b
    boostrank propensities train.txt.clicks -o propensities.json
    """
    from boostrank.clicks.columns import ClickColumns, ClickRows
    from boostrank.clicks.estimation import check as check_propensities
    from boostrank.clicks.estimation import estimate
    from boostrank.clicks.files import read_clicks
    from boostrank.clicks.propensities import Propensities, SegmentPropensities, read_propensities
    from boostrank.core.files import check_writable

    if picture is not None:
        _check_picture(picture, context)
    for path in (output, picture):
        if path is not None:
            check_writable(path)
    if click_columns is None:
        if qid is not None:
            raise click.UsageError("--qid is for --click-columns", context)
        log = read_clicks(clicks)
    else:
        log = ClickRows.read(clicks, ClickColumns.of(click_columns), qid or "").log()[0]
    say(f"{clicks}: {log!r}")
    curve = None if given is None else read_propensities(given)
    found = estimate(log)
    drawn = None if picture is None else _drawn({clicks: found} | ({} if curve is None else {given or "": curve}))
    check = None if curve is None else check_propensities(log, curve)
    if output is not None:
        found.write(output)
        say(f"{output}: written")
    if drawn is not None and picture is not None:
        drawn.save(picture)
        say(f"{picture}: written")
    if as_json:
        study.print_json(found.to_dict() | ({} if check is None else {"check": vars(check)}))
        return
    if isinstance(found, Propensities):
        _print(found, curve if isinstance(curve, Propensities) else None)
        say(f"from {found.moved:,} clicked documents that were shown at several positions")
    else:
        for name, one in found.curves.items():
            own = curve.curves[name] if isinstance(curve, SegmentPropensities) else curve
            how = f"from {one.moved:,} documents that moved" if one.moved else one.method
            click.echo(f"segment {name}, {how}")
            _print(one, own)
    if check is not None and given is not None:
        click.echo(_verdict(check, given))


def _check_picture(path: str, context: click.Context) -> None:
    """Find out before the work whether a picture can be drawn.

    Raises:
        UsageError: another ending than those of pictures.
        MissingDependency: the extra `report` is not installed.
    """
    from boostrank.report.vega import need_report_extra

    if not path.lower().endswith(_PICTURES):
        raise click.UsageError(f"--picture {path}: its name ends in {', '.join(_PICTURES)}", context)
    need_report_extra()


def _drawn(found: Mapping[str, AnyPropensities]) -> Chart:
    """The curves of what is called so, each of its segments where it has some.

    Raises:
        InputError: more curves than can be told apart.
    """
    from boostrank.core.errors import InputError
    from boostrank.report.propensity_chart import MOST_CURVES, curve_chart, curves_of

    curves = {name: curve for called, one in found.items() for name, curve in curves_of(called, one).items()}
    if len(curves) > MOST_CURVES:
        words = f"--picture draws {MOST_CURVES} curves at most, and there are {len(curves)}"
        raise InputError(f"{words}: count segments apart (count-clicks --where)")
    return curve_chart(curves)


def _print(found: Propensities, given: Propensities | None) -> None:
    rows = [["position", "propensity", "95% interval", *(["given"] if given else [])]]
    assert found.errors is not None
    for i, (e, error) in enumerate(zip(found.examination, found.errors, strict=True)):
        own = [] if given is None else [f"{given.examination[i]:.3f}" if i < given.examination.size else ""]
        if not math.isfinite(e):
            rows.append([str(i + 1), "unknown", "", *own])
            continue
        width = math.exp(1.96 * error)
        rows.append([str(i + 1), f"{e:.3f}", f"{e / width:.3f} to {e * width:.3f}" if i else "", *own])
    print_table(rows)


def _verdict(check: CurveCheck, path: str) -> str:
    holds = "clicks do not contradict it" if check.p >= 0.05 else "clicks contradict it"
    return f"{path}: {holds} ({check.nats:.1f} nats less likely than the curve above, p {check.p:.2g})"
